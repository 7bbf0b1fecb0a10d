"""The learner's parts."""
