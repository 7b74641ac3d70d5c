"""The log of a run: one MCAP file that opens as a ROS 2 bag, written by a child process and read in constant memory.

:mod:`~vehicled.log.sink` packs on the loop, :mod:`~vehicled.log.pipe` hands over without blocking, :mod:`~vehicled.log.writer` is
the child. :mod:`~vehicled.log.reader` reads, :mod:`~vehicled.log.timing`, :mod:`~vehicled.log.info` and
:mod:`~vehicled.log.recover` answer questions. Nothing is imported here: the child must start fast.
"""
