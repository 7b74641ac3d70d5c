"""Logs, recordings, studies, twins and learning: none of it needs a vehicle."""
