"""Log of a run: one MCAP file that opens as a ROS 2 bag.

:mod:`~vehicled.log.sink` packs messages on the loop, :mod:`~vehicled.log.pipe` passes them on
without blocking, :mod:`~vehicled.log.writer` is the child process that writes.
:mod:`~vehicled.log.reader` reads in constant memory. Nothing is imported here, because the child
must start fast.
"""
