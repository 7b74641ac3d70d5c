"""Courses: the line to drive, and the vehicle's projection on it.

:mod:`~vehicled.paths.datum` places a local plane on the earth, :mod:`~vehicled.paths.course` turns
waypoints into an evenly sampled line, :mod:`~vehicled.paths.tracking` tracks the progress along it,
:mod:`~vehicled.paths.formulas` draws courses by formula, :mod:`~vehicled.paths.formats` reads files
and :mod:`~vehicled.paths.catalog` finds a course by name.
"""

from vehicled.paths.errors import CourseError

__all__ = ["CourseError"]
