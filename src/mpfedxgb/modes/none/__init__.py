"""`security="none"`: one process computes the model of strict in the clear; `plain_train` stands for the protocol."""
