"""The report as one HTML page: what one role may know of its federation, in words, tables and drawings."""

from mpfedxgb.report.html.page import page_html, summary_html

__all__ = ["page_html", "summary_html"]
