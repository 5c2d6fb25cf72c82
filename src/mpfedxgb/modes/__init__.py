"""What `security` chooses: who knows gradients, margins and leaf weights, and what is opened while trees grow.

Each folder is a mode; `facts.py` sets the four beside each other.
"""
