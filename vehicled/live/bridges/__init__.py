"""Child processes that pass the data of a run on to other programs: the live view, ROS 2, MAVLink.

The loop only runs :mod:`~vehicled.live.bridges.feed` (copies of log records) and
:mod:`~vehicled.live.bridges.process` (the pipe). A child sends its requests through the control
socket, like any other program on the computer.
"""
