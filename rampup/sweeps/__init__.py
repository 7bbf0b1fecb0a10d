"""Many runs of one experiment that differ in some of its settings: planned, run by an engine, and set side by side."""
