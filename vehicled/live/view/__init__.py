"""Live view: a web page and Foxglove's protocol, served by a child process, see
:mod:`vehicled.live.bridges`.

Requests of a page come back through the control socket, like those of any other program.
"""
