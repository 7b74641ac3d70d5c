"""Live view: a web page and Foxglove's protocol, served by a child process.

The loop only runs :mod:`~vehicled.view.feed` (copies of log records) and :mod:`~vehicled.view.process` (the pipe). Everything else
runs in the child, :mod:`~vehicled.view.server`. Requests of a page come back through the control socket, like those of any other
program.
"""
