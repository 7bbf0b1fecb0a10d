"""The learner: sample, estimate, solve, update; stages, schemes, and many runs at once."""
