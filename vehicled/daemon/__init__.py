"""The pure daemon: the machine, its pipeline, and what builds both from a profile."""
