"""One participant's plaintext: columns, bins, candidate splits. No other party, no secret."""

from mpfedxgb.data.binning import Bins, Candidate, Candidates, bin_table, cut_points
from mpfedxgb.data.table import Column, Table

__all__ = ["Bins", "Candidate", "Candidates", "Column", "Table", "bin_table", "cut_points"]
