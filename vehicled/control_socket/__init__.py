"""The daemon's door for those on the same machine: a Unix socket that takes one JSON object a line and answers with one.

Whoever may open it may ask; what is asked passes the same checks as any request. Nothing here can skip one.
"""
