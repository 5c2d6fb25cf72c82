"""For human eyes: the record of a run, trees as text, progress."""

from mpfedxgb.report.record import RunRecord, record_run

__all__ = ["RunRecord", "record_run"]
