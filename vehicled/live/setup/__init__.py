"""Setting up a vehicle: steps that measure it while its owner lifts, pushes and turns it, or drives
it with a held key.

:mod:`~vehicled.live.setup.estimates` are pure functions of recorded samples,
:mod:`~vehicled.live.setup.steps` the table of the steps and the keys of the profile that they
write. :mod:`~vehicled.live.setup.session` runs one step without clock and terminal;
:mod:`~vehicled.live.setup.bench` joins it to the ports of the vehicle and to a front end: a
terminal, or web pages, :mod:`~vehicled.live.setup.pages` with its
:mod:`~vehicled.live.setup.server`.
"""
