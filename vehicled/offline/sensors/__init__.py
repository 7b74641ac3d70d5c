"""Sensor models fitted to recordings, and recordings with a simulated sensor: commands ``vehicled
sensors``."""
