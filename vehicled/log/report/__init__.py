"""The report of a run: one page that needs neither network nor script.

:mod:`~vehicled.log.report.scan` reads the log once, in constant memory; :mod:`~vehicled.log.report.verdict`,
:mod:`~vehicled.log.report.panels`, :mod:`~vehicled.log.report.diagrams` and :mod:`~vehicled.log.report.drive_map` tell and draw
what it found; :mod:`~vehicled.log.report.page` puts it together.
"""
