"""The experiments: one YAML file each, read by `rampup.config`."""
