"""For human eyes: the record of a run, trees as text, progress."""
