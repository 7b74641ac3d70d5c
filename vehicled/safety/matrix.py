"""The failsafe matrix in one table: the supervisor, the documentation, the live view and the tests
of every row use it.

Row numbers never change, because logs and documents refer to them.
"""

from collections.abc import Set

from vehicled.safety.rows import operation, sensors, timing, vehicle
from vehicled.safety.rule import Row, Rule

MATRIX: tuple[Row, ...] = tuple(
    sorted(
        (*timing.ROWS, *sensors.ROWS, *vehicle.ROWS, *operation.ROWS), key=lambda row: row.number
    )
)
"""All rows, sorted by number."""

RULES: tuple[Rule, ...] = tuple(rule for row in MATRIX for rule in row.rules)
"""All rules of the matrix, in row order."""

CAPABILITIES = ("telemetry", "brake", "readable_timeout")
"""Keys of ``[devices.x.capabilities]``: the capabilities that an actuator may lack."""


def substitutes(lacking: Set[str]) -> tuple[str, ...]:
    """Return one text per row and missing capability, which says what replaces it."""
    return tuple(
        f"row {row.number} ({row.fault}), no {name.replace('_', ' ')}: {words}"
        for row in MATRIX
        for name, words in row.substitute.items()
        if name in lacking
    )
