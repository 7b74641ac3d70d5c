"""Base station: a GNSS receiver that surveys its position, and servers that pass its corrections to
rovers.

:mod:`~vehicled.live.base_station.caster` is the dialogue of an NTRIP caster without I/O,
:mod:`~vehicled.live.base_station.servers` the sockets, :mod:`~vehicled.live.base_station.session`
joins them to the receiver.
"""
