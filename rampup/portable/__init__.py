"""Policies outside the lab: a reader that needs nothing but NumPy, and one for browsers; both may be copied."""
