"""The paper's own way to a split and to a leaf weight, as printed: `security="paper"`."""
