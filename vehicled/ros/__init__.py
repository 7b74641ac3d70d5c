"""ROS 2 view of the messages: definitions, CDR bytes, and projections to the standard types. Needs
no ROS installation.

:mod:`~vehicled.ros.definition` gives the ``ros2msg`` text of a struct, :mod:`~vehicled.ros.cdr` its
packer and unpacker, :mod:`~vehicled.ros.standard` the standard types,
:mod:`~vehicled.ros.projections` the table of what is published as them,
:mod:`~vehicled.ros.autoware` the records of Autoware's vehicle interface.
"""
