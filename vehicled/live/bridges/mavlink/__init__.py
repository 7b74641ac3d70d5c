"""MAVLink for ground stations such as QGroundControl and Mission Planner, which see an ArduPilot
rover.

:mod:`~vehicled.live.bridges.mavlink.autopilot` speaks for the vehicle; it and the modules that it
uses are pure. :mod:`~vehicled.live.bridges.mavlink.server` is the process around it, with the link
and the connection to the daemon.
"""
