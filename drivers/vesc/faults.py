"""Fault codes of VESC motor controllers by name.

The list was only extended, so names hold for every firmware; firmwares differ in the last code.
"""

NAMES = (
    "none", "over_voltage", "under_voltage", "drv", "abs_over_current", "over_temp_fet",
    "over_temp_motor", "gate_driver_over_voltage", "gate_driver_under_voltage", "mcu_under_voltage",
    "booting_from_watchdog_reset", "encoder_spi", "encoder_sincos_below_min_amplitude",
    "encoder_sincos_above_max_amplitude", "flash_corruption", "high_offset_current_sensor_1",
    "high_offset_current_sensor_2", "high_offset_current_sensor_3", "unbalanced_currents", "brk",
    "resolver_lot", "resolver_dos", "resolver_los", "flash_corruption_app_cfg",
    "flash_corruption_mc_cfg", "encoder_no_magnet", "encoder_magnet_too_strong", "phase_filter",
    "encoder_fault", "lv_output_fault", "encoder_slip", "overspeed", "underspeed", "abs_overspeed",
)  # fmt: skip
"""Fault names by code."""

_LAST_CODE: tuple[tuple[tuple[int, int], int], ...] = (
    ((7, 0), 33),
    ((6, 0), 29),
    ((5, 3), 27),
    ((5, 2), 25),
    ((5, 0), 22),
    ((3, 0), 18),
    ((0, 0), 6),
)
"""Last fault code from a firmware on; a lower bound if a family grew between releases."""


def last_code(firmware: tuple[int, int]) -> int:
    """Return the last known fault code of a firmware family (major, minor)."""
    return next(last for since, last in _LAST_CODE if firmware >= since)


def fault_name(code: int) -> str:
    """Return the name of a fault code; ``unknown_<code>`` for an unknown one."""
    return NAMES[code] if 0 <= code < len(NAMES) else f"unknown_{code}"


def describe(code: int, firmware: tuple[int, int] | None) -> str:
    """Return the fault in words, with a remark if the firmware should not know the code."""
    text = f"fault {code}, {fault_name(code)}"
    if firmware is not None and code > last_code(firmware):
        text += (
            f" (not in the list known for firmware {firmware[0]}.{firmware[1]:02d}: trust the "
            "number, not the name)"
        )
    return text
