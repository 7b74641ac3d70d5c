"""Report of a run: one HTML page that needs neither network nor script.

:mod:`~vehicled.analysis.report.scan` reads the log once, in constant memory; :mod:`~vehicled.analysis.report.verdict`,
:mod:`~vehicled.analysis.report.panels`, :mod:`~vehicled.analysis.report.diagrams` and :mod:`~vehicled.analysis.report.drive_map`
evaluate and draw it; :mod:`~vehicled.analysis.report.page` assembles the page.
"""
