"""Report of a run: one HTML page that needs neither network nor script.

:mod:`~vehicled.offline.analysis.report.scan` reads the log once, in constant memory;
:mod:`~vehicled.offline.analysis.report.verdict`, :mod:`~vehicled.offline.analysis.report.panels`,
:mod:`~vehicled.offline.analysis.report.diagrams` and
:mod:`~vehicled.offline.analysis.report.drive_map` evaluate and draw it;
:mod:`~vehicled.offline.analysis.report.page` assembles the page.
"""
