"""The failsafe matrix: one table. Supervisor, documentation, live view and the tests of every row are made from it.

Numbers of the rows are for good: logs and documents refer to them.
"""

from vehicled.safety.rows import operation, sensors, timing, vehicle
from vehicled.safety.rule import Row, Rule

MATRIX: tuple[Row, ...] = tuple(sorted((*timing.ROWS, *sensors.ROWS, *vehicle.ROWS, *operation.ROWS), key=lambda row: row.number))
"""Every row, by number."""

RULES: tuple[Rule, ...] = tuple(rule for row in MATRIX for rule in row.rules)
"""Every rule of the matrix."""
