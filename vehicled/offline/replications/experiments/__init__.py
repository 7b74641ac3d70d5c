"""Repetitions of published experiments: their set-up, and their tables beside ours."""
