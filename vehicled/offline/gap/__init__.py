"""Distance of simulated runs from real ones: the judges, the quantities and the statistics."""
