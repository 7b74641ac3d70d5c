"""Reads finished logs: report, comparison, timing, export and plots. A drive loads nothing of
it."""
