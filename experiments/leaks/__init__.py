"""What the paper's reveals tell a curious role: recorded trainings, attacks on them, and how well each does."""
