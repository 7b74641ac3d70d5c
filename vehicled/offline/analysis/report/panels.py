"""Panels of the report along the time axis."""

from collections.abc import Callable, Sequence
from math import degrees, isfinite

import numpy as np

from vehicled.core.messages import (
    ControlLevel,
    Identification,
)
from vehicled.core.plain_text import escape
from vehicled.offline.analysis.report.chart import LimitLine, Line, key, line_plot
from vehicled.offline.analysis.report.panel import MissingPanel, Panel, PanelOrMissing
from vehicled.offline.analysis.report.rows import (
    collector_panel,
    marks_panel,
    misses_panel,
    states_panel,
    ticks_panel,
    word,
)
from vehicled.offline.analysis.report.scan import NIS_95, Findings
from vehicled.offline.analysis.report.thin import COLUMNS, Thinned

DASHED, DOTTED = "6 3", "2 3"


def panels(f: Findings) -> list[PanelOrMissing]:
    """Return every panel in page order, or the reason why it is missing."""
    makers: tuple[Callable[[Findings], PanelOrMissing], ...] = (
        states_panel, marks_panel, _deadlines, misses_panel, ticks_panel, collector_panel, _ages,
        _tracking, _heading_error, _estimation, _speed, _steering, _throttle, _gnss, _satellites,
        _nis, _rejected, _solver, _host, _temperature, _motor,
    )  # fmt: skip
    return [maker(f) for maker in makers] + _parameters(f)


def _lines(
    f: Findings, name: str, title: str, unit: str,
    wanted: Sequence[tuple[str, str, int, str, float]], absent: str, *,
    levels: Sequence[LimitLine] = (), note: str = "", logarithmic: bool = False,
    at_least: tuple[float, float] | None = None, bands: Sequence[tuple[Thinned, Thinned, int]] = (),
    zone: tuple[float, float] | None = None, held: bool = False,
) -> PanelOrMissing:  # fmt: skip
    """Return a panel of those ``wanted`` series (series, name, colour, dash, factor) that the log
    has."""
    lines = [
        Line(label, f.series[s], colour, dash, factor, held, s)
        for s, label, colour, dash, factor in wanted
        if f.has(s)
    ]
    if not lines:
        return MissingPanel(name, title, absent)
    levels = [level for level in levels if isfinite(level.value)]
    body = line_plot(
        f.axis,
        lines,
        levels,
        logarithmic=logarithmic,
        at_least=at_least,
        bands=bands,
        origin_s=f.seconds(f.axis.start_ns),
        zone=zone,
    )
    legend = "".join(key(line.name, line.colour, line.dash) for line in lines)
    seen = []
    for level in levels:
        if level.name not in seen:
            seen.append(level.name)
    legend += "".join(
        f'<span class="key"><i class="rule"></i>{escape(text)}</span>' for text in seen
    )
    return Panel(name, title, unit, body, legend, note)


# ------------------------------------------------------------------ timing


def _deadlines(f: Findings) -> PanelOrMissing:
    names = {
        f"task_tick.{task}.response_share": task for task in sorted({task for task, _ in f.bins})
    }
    wanted = [(name, f.task_name(task), 1 + task % 6, "", 100.0) for name, task in names.items()]
    # One long stall would flatten all other values, so the axis is logarithmic.
    stalled = any(f.series[name].max > 4.0 for name in names)
    return _lines(
        f, "deadlines", "Response of the tasks",
        "% of the deadline" + (", logarithmic" if stalled else ""), wanted,
        "The log has no task ticks.", levels=[LimitLine("deadline", 100.0)],
        at_least=None if stalled else (0.0, 100.0), logarithmic=stalled,
        note="Response: end minus planned start. A miss lies above 100 %.",
    )  # fmt: skip


def _ages(f: Findings) -> PanelOrMissing:
    wanted = [
        ("age.estimate_ms", "state estimate", 3, "", 1.0), ("age.imu_ms", "IMU", 1, "", 1.0),
        ("age.gnss_ms", "GNSS", 2, "", 1.0), ("age.odometry_ms", "wheels or motor", 4, "", 1.0),
        ("age.wire_ms", "newest measurement, since its validity", 0, DOTTED, 1.0),
    ]  # fmt: skip
    note = "At every actuator command: time since the arrival of what it rests on."
    return _lines(
        f,
        "ages",
        "Age of the inputs",
        "ms, logarithmic",
        wanted,
        "The actuator commands hold no ages.",
        logarithmic=True,
        note=note,
    )


# ------------------------------------------------------------------ errors


def _tracking(f: Findings) -> PanelOrMissing:
    corridor = f.limits.get("corridor_m", float("nan"))
    believed = f.series.get("control_command.cross_track_m")
    wide = believed is not None and believed.n and believed.largest_magnitude > 0.4 * corridor
    levels = [LimitLine("corridor", corridor), LimitLine("corridor", -corridor)] if wide else []
    note = "Positive: left of the course." + (
        f" The corridor is ±{corridor:g} m." if isfinite(corridor) and not wide else ""
    )
    if f.has("error.cross_track_m"):
        note += (
            " True error: the believed one and how far the truth lies beside the estimate; "
            "while driving by itself."
        )
    wanted = [
        ("control_command.cross_track_m", "believed", 2, "", 1.0),
        ("error.cross_track_m", "true", 3, DASHED, 1.0),
    ]  # fmt: skip
    return _lines(
        f,
        "tracking",
        "Cross-track error",
        "m",
        wanted,
        "The controller reports no cross-track error.",
        levels=levels,
        note=note,
    )


def _heading_error(f: Findings) -> PanelOrMissing:
    wanted = [("control_command.heading_error_rad", "path minus vehicle", 2, "", degrees(1.0))]
    return _lines(
        f, "heading", "Heading error", "degrees", wanted, "The controller reports no heading error."
    )


def _estimation(f: Findings) -> PanelOrMissing:
    name, title = "estimation", "Error of the estimated position"
    if f.has("error.position_m"):
        wanted = [
            ("error.position_m", "distance from the truth", 2, "", 100.0),
            ("sigma.position_m", "the filter's own sigma", 1, DASHED, 100.0),
        ]  # fmt: skip
        return _lines(
            f,
            name,
            title,
            "cm",
            wanted,
            "",
            at_least=(0.0, 0.0),
            note="The error while driving by itself.",
        )
    wanted = [("sigma.position_m", "the filter's own sigma", 1, "", 100.0)]
    note = (
        "There is no ground truth in this log: only what the filter believes of itself can be "
        "shown."
    )
    return _lines(
        f,
        name,
        "Sigma of the estimated position",
        "cm",
        wanted,
        "The log has no estimates.",
        note=note,
        at_least=(0.0, 0.0),
    )


# ------------------------------------------------------------------ commands


def _speed(f: Findings) -> PanelOrMissing:
    limit = f.limits.get("max_speed_mps", float("nan"))
    highest = max(
        (
            f.series[s].max
            for s in ("state_estimate.speed_mps", "control_command.target_speed_mps")
            if f.has(s)
        ),
        default=0.0,
    )
    near = highest > 0.5 * limit
    note = f"The limit of the profile is {limit:g} m/s." if isfinite(limit) and not near else ""
    wanted = [
        ("control_command.target_speed_mps", "target", 0, "", 1.0),
        ("wheel_speed.speed_mps", "wheels", 5, "", 1.0),
        ("state_estimate.speed_mps", "estimate", 2, "", 1.0),
        ("ground_truth.speed_mps", "truth", 3, DASHED, 1.0),
    ]  # fmt: skip
    levels = [LimitLine("limit", limit)] if near else []
    return _lines(
        f,
        "speed",
        "Speed",
        "m/s",
        wanted,
        "The log has neither estimates nor commands.",
        levels=levels,
        note=note,
    )


def _steering(f: Findings) -> PanelOrMissing:
    stop = degrees(f.limits.get("max_wheel_rad", float("nan")))
    wanted = [
        ("control_command.wheel_angle_rad", "wanted", 0, "", degrees(1.0)),
        ("actuator_command.wheel_angle_rad", "commanded", 1, "", degrees(1.0)),
        ("steering_feedback.wheel_angle_rad", "measured", 2, "", degrees(1.0)),
        ("ground_truth.wheel_angle_rad", "truth", 3, DASHED, degrees(1.0)),
    ]  # fmt: skip
    cut = int(f.clipped[1].sum())
    note = f"{cut} commands were outside of the limits and cut." if cut else "Positive: left."
    levels = [LimitLine("limit", stop), LimitLine("limit", -stop)]
    return _lines(
        f,
        "steering",
        "Wheel angle",
        "degrees",
        wanted,
        "The log has no commands.",
        levels=levels,
        note=note,
    )


def _throttle(f: Findings) -> PanelOrMissing:
    wanted = [
        ("control_command.throttle", "throttle wanted", 0, "", 100.0),
        ("actuator_command.throttle", "throttle", 3, "", 100.0),
        ("actuator_command.brake", "brake", 6, DASHED, 100.0),
    ]  # fmt: skip
    cut, bad = int((f.clipped[2] + f.clipped[4]).sum()), int(f.clipped[8].sum())
    note = f"{cut} commands were cut at a limit." if cut else ""
    note += f" {bad} were not finite and replaced by the brake." if bad else ""
    return _lines(
        f, "throttle", "Throttle and brake", "%", wanted, "The log has no commands.", note=note,
        at_least=(0.0, 100.0), levels=[LimitLine("limit", 100.0)],
    )  # fmt: skip


# ------------------------------------------------------------------ measurements and estimator


def _gnss(f: Findings) -> PanelOrMissing:
    wanted = [("gnss_fix.sigma_m", "sigma reported by the receiver", 1, "", 100.0)]
    return _lines(
        f,
        "gnss",
        "GNSS: horizontal sigma",
        "cm, logarithmic",
        wanted,
        "The log has no GNSS fixes with a sigma.",
        logarithmic=True,
    )


def _satellites(f: Findings) -> PanelOrMissing:
    wanted = [
        ("gnss_fix.satellites", "satellites", 3, "", 1.0),
        ("gnss_fix.correction_age_s", "age of the corrections in s", 2, DASHED, 1.0),
        ("gnss_fix.hdop", "HDOP", 4, DOTTED, 1.0),
    ]  # fmt: skip
    absent = "The log has no GNSS fixes."
    return _lines(
        f, "satellites", "GNSS: satellites, corrections", "", wanted, absent, at_least=(0.0, 0.0)
    )


def _nis(f: Findings) -> PanelOrMissing:
    found = f.series.get("nis")
    note = ""
    if found is not None and found.n:
        share = f.nis_outside / found.n
        note = (
            "Chi-square with two degrees of freedom when the filter is consistent: 95 % in the "
            f"band, below {NIS_95:g}. Here {1 - share:.1%} of {found.n} updates are; mean "
            f"{found.mean:.2f}, expected 2."
        )
        if share < 0.01 and found.mean < 1.0:
            note += " The filter trusts its measurements less than it could."
        elif share > 0.1:
            note += " The filter believes too much in itself or in the receiver's sigma."
    return _lines(
        f, "nis", "Normalised innovation squared", "", [("nis", "position updates", 1, "", 1.0)],
        "The estimator reports no innovations.", zone=(0.0, NIS_95), note=note,
    )  # fmt: skip


def _rejected(f: Findings) -> PanelOrMissing:
    name, title = "rejected", "Measurements refused by the gate"
    found = f.series.get("state_estimate.rejected")
    if found is None or not found.n:
        return MissingPanel(name, title, "The log has no estimates.")
    if found.max == 0:
        return MissingPanel(name, title, "No measurement was refused.")
    wanted = [
        ("state_estimate.rejected", "since the start", 2, "", 1.0),
        ("state_estimate.rejected_in_a_row", "in a row", 6, DASHED, 1.0),
    ]  # fmt: skip
    return _lines(f, name, title, "", wanted, "", at_least=(0.0, 0.0))


def _solver(f: Findings) -> PanelOrMissing:
    found = f.series.get("control_command.iterations")
    if found is None or not found.n or found.max == 0:
        return MissingPanel("solver", "Iterations of the solver", "This controller has no solver.")
    counts = f.states["level"].counts
    others = [
        f"{int(counts[level])} {word(level)}" for level in ControlLevel if level and counts[level]
    ]
    note = (
        "Every command is the controller's own solution."
        if not others
        else "Commands from lower levels: " + ", ".join(others) + "."
    )
    return _lines(
        f, "solver", "Iterations of the solver", "",
        [("control_command.iterations", "iterations", 1, "", 1.0)], "", note=note,
        at_least=(0.0, 0.0),
    )  # fmt: skip


# ------------------------------------------------------------------ host, motor, parameters


def _host(f: Findings) -> PanelOrMissing:
    wanted = [
        ("host_health.cpu_busy_share", "processors busy", 2, "", 100.0),
        ("host_health.memory_free_share", "memory free", 3, DASHED, 100.0),
        ("host_health.disk_free_share", "disk free", 1, DOTTED, 100.0),
        ("host_health.log_backlog_share", "queue to the log", 6, "", 100.0),
    ]  # fmt: skip
    absent = "The computer is only watched on the wall clock, not in lockstep."
    if f.header is not None and f.header.clock == "wall":
        absent = "The log holds nothing about the computer."
    return _lines(f, "host", "Computer", "%", wanted, absent, at_least=(0.0, 100.0))


def _temperature(f: Findings) -> PanelOrMissing:
    wanted = [
        ("host_health.temperature_k", "processor", 2, "", 1.0),
        ("motor_status.motor_temperature_k", "motor", 6, DASHED, 1.0),
        ("motor_status.controller_temperature_k", "motor controller", 4, DOTTED, 1.0),
    ]  # fmt: skip
    return _lines(f, "temperature", "Temperatures", "K", wanted, "This log holds no temperatures.")


def _motor(f: Findings) -> PanelOrMissing:
    wanted = [
        ("motor_status.input_voltage_v", "voltage in V", 1, "", 1.0),
        ("ground_truth.battery_v", "true battery voltage in V", 3, DASHED, 1.0),
        ("motor_status.motor_current_a", "motor current in A", 2, "", 1.0),
        ("motor_status.input_current_a", "input current in A", 4, DOTTED, 1.0),
    ]  # fmt: skip
    return _lines(
        f, "motor", "Motor and battery", "V, A", wanted, "This log holds no voltages or currents."
    )


def _parameters(f: Findings) -> list[PanelOrMissing]:
    """Return one panel per identified parameter, with a band of one sigma."""
    made: list[PanelOrMissing] = []
    fields = Identification.__struct_fields__
    for field in fields:
        head, _, unit = field.rpartition("_")
        sigma_name = next(
            (s for s in (f"{head}_sigma_{unit}", f"{field}_sigma") if s in fields), ""
        )
        sigma = f.series.get(f"identification.{sigma_name}") if sigma_name else None
        if not f.has(f"identification.{field}") or sigma is None or not sigma.n:
            continue
        value = f.series[f"identification.{field}"]
        below, above = Thinned(), Thinned()
        columns = np.arange(COLUMNS)
        below.add(columns, value.low - sigma.high)
        above.add(columns, value.high + sigma.high)
        note = "Band: one sigma to either side."
        name = field.replace("_", "-")
        line = [(f"identification.{field}", "identified", 1, "", 1.0)]
        made.append(
            _lines(
                f,
                f"parameter-{name}",
                f"Identified: {field.replace('_', ' ')}",
                "",
                line,
                "",
                bands=[(below, above, 1)],
                held=True,
                note=note,
            )
        )
    return made or [
        MissingPanel(
            "parameters",
            "Identified parameters",
            "No parameter of the vehicle was being identified.",
        )
    ]
