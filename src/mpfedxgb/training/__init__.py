"""The loop of Algorithm 1: what stands before the first round, the rounds, and what is kept of them."""

from mpfedxgb.training.train import secure_train

__all__ = ["secure_train"]
