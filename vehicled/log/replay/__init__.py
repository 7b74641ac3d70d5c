"""The machine again, driven by its own journal: the same frames, or the first place where they differ.

:mod:`~vehicled.log.replay.journal` reads what happened, :mod:`~vehicled.log.replay.drive` hands it to a machine built from the log
alone, :mod:`~vehicled.log.replay.compare` holds what the machine makes of it against what stands in the log.
"""
