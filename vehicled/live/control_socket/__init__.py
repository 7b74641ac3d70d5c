"""Control socket of the daemon for programs on the same computer: a Unix socket with one JSON
object per line in both directions.

File permissions decide who may connect. Every request passes the same checks as one from the
operator's port.
"""
