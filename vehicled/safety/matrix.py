"""The failsafe matrix: one table. Supervisor, documentation, live view and the tests of every row are made from it.

Numbers of the rows are for good: logs and documents refer to them.
"""

from collections.abc import Set

from vehicled.safety.rows import operation, sensors, timing, vehicle
from vehicled.safety.rule import Row, Rule

MATRIX: tuple[Row, ...] = tuple(sorted((*timing.ROWS, *sensors.ROWS, *vehicle.ROWS, *operation.ROWS), key=lambda row: row.number))
"""Every row, by number."""

RULES: tuple[Rule, ...] = tuple(rule for row in MATRIX for rule in row.rules)
"""Every rule of the matrix."""

CAPABILITIES = ("telemetry", "brake", "readable_timeout")
"""What an actuator may lack, as ``[devices.x.capabilities]`` has it."""


def substitutes(lacking: Set[str]) -> tuple[str, ...]:
    """What stands in for the capabilities that an actuator lacks, in words, row by row."""
    return tuple(
        f"row {row.number} ({row.fault}), no {name.replace('_', ' ')}: {words}"
        for row in MATRIX
        for name, words in row.substitute.items()
        if name in lacking
    )
