"""Driving by hand: what keyboards, gamepads and wheels say becomes readings for the daemon, as long as a human is there.

Sources decode and map (:mod:`~vehicled.teleop.keyboard`, :mod:`~vehicled.teleop.pad`); they are handed bytes and times and can be
used by any front end. The rest of the package owns terminal, device and socket.
"""
