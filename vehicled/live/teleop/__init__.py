"""Manual driving: keyboards, gamepads and steering wheels become teleop readings for the daemon
while the deadman is held.

The sources (:mod:`~vehicled.live.teleop.keyboard`, :mod:`~vehicled.live.teleop.pad`) decode bytes
without I/O, so any front end can use them. The other modules own terminal, device and socket.
"""
