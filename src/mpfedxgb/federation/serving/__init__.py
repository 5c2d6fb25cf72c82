"""Scores over HTTP, at the active participant: requests wait, are scored in batches, and are answered row by row."""
