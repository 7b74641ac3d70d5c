"""The live view: a web page, and Foxglove's protocol beside it, served by a child process that the loop only copies bytes to.

On the loop there are :mod:`~vehicled.view.feed` (what is copied, and when) and :mod:`~vehicled.view.process` (the child and its
pipe). Everything else runs in the child, :mod:`~vehicled.view.server`. What a page asks for comes back through the control socket,
as from any other program of its user.
"""
