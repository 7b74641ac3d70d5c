"""Deterministic replay: runs the machine from its journal and reports the first frame or record that differs.

:mod:`~vehicled.replay.journal` reads the inputs, :mod:`~vehicled.replay.drive` feeds them to a machine built from the log
alone, :mod:`~vehicled.replay.compare` compares its outputs with those in the log.
"""
