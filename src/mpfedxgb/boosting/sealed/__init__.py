"""Boosting of which nobody sees a row, `security="sealed"`: margins, gradients and leaf weights stay secret."""
