"""Report of a run: one HTML page that needs neither network nor script.

:mod:`~vehicled.log.report.scan` reads the log once, in constant memory; :mod:`~vehicled.log.report.verdict`,
:mod:`~vehicled.log.report.panels`, :mod:`~vehicled.log.report.diagrams` and :mod:`~vehicled.log.report.drive_map` evaluate and
draw
it; :mod:`~vehicled.log.report.page` assembles the page.
"""
