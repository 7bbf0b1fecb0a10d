"""Exact answers, the ground truth that sampled estimates are tested against."""
