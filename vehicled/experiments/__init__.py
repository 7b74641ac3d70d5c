"""Published experiments, repeated: their set-up, their table and ours beside it."""
