"""ROS 2 without a ROS installation: DDS topics with the names, types and bytes that ROS 2 nodes
use. See docs/ros2.md.

:mod:`~vehicled.live.bridges.ros2.server` is the child's program,
:mod:`~vehicled.live.bridges.ros2.topics` the table of topics,
:mod:`~vehicled.live.bridges.ros2.dds` what is needed of Cyclone DDS,
:mod:`~vehicled.live.bridges.ros2.commands` the requests of ROS nodes,
:mod:`~vehicled.live.bridges.ros2.autoware` the vehicle interface of Autoware.
"""
