"""A fleet as its user describes it: one line or table per vehicle, checked before any process
starts."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from sim_backend.fleet.order import FleetOrder, VehicleOrder
from sim_backend.fleet.radio import RadioModel
from vehicled.core.error_text import shown
from vehicled.core.errors import SetupError, UserError
from vehicled.paths.course import Course
from vehicled.paths.markings import NO_MARKINGS
from vehicled.paths.stored import to_json
from vehicled.paths.waits import waits_at
from vehicled.profile import ProfileError, toml_text
from vehicled.profile.collect import build_table
from vehicled.profile.schema import Table
from vehicled.run.plan import Plan
from vehicled.run.spec import LONGEST_S, VEHICLE_NAME, RunSpec

MOST = 64
"""Largest number of vehicles."""
GREETING_S = 120.0
"""Longest wait for a daemon to start, s: all start side by side."""
DAEMON_MARGIN_S = 60.0
"""Time for which a daemon waits longer than the simulator waits for the others, s."""
PLUGIN_KEYS = ("controller", "estimator")
Seconds = Annotated[float, Meta(gt=0.0, le=LONGEST_S)]


class FleetEntry(Table, frozen=True, kw_only=True):
    """One vehicle of a fleet. What is left out is that of the options of ``vehicled sim``."""

    name: str
    """Name in texts, and of the folder of its log: small letters, digits, ``-`` and ``_``."""
    profile: str = ""
    course: str = ""
    laps: Annotated[int, Meta(ge=1)] | None = None
    from_m: Annotated[float, Meta(ge=-200_000.0, le=200_000.0)] | None = None
    """Arc length of the course at which the vehicle starts, m; negative: before the end of a
    lap."""
    start: Literal["", "stand", "align"] = ""
    """Way in which it finds its heading, as ``--start``."""
    delay_s: Annotated[float, Meta(ge=0.0, le=25.0)] = 0.0
    """Time after the start of the run at which it is armed."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Random seed of its sensors; left out: drawn from the seed of the run and its name."""
    controller: str = ""
    estimator: str = ""
    link: Literal["", "messages", "wires"] = ""
    latency: str = ""
    fail: list[str] = field(default_factory=list)
    """Faults to inject, as ``--fail``."""
    set: list[str] = field(default_factory=list)
    """Overrides of the profile, as ``--set``."""


class FleetFile(Table, frozen=True, kw_only=True):
    """File of a fleet."""

    scene: str = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    duration_s: Seconds | None = None
    radio: RadioModel = RadioModel()
    """Channel of ``NeighbourState``."""
    vehicle: list[FleetEntry] = field(default_factory=list)


def read_fleet(path: Path) -> FleetFile:
    """Read the file of a fleet. Raises :class:`SetupError` with every mistake."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SetupError(f"--fleet {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SetupError(f"--fleet {path}: is not UTF-8 text; save it as UTF-8") from None
    try:
        table = toml_text.parse(text, str(path))
    except ProfileError as error:
        raise SetupError(f"--fleet {error}") from None
    file, problems = build_table(FleetFile, table)
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise SetupError(f"--fleet {path}: {listed.strip() if len(problems) == 1 else listed}")
    found: FleetFile = file
    return _anchored(found, path.parent)


def _anchored(file: FleetFile, folder: Path) -> FleetFile:
    """Return the file with whole paths of the files that stand beside it."""

    def whole(name: str) -> str:
        beside, colon, rest = name.partition(":")
        known = beside and not Path(beside).is_absolute() and (folder / beside).is_file()
        return f"{(folder / beside).absolute()}{colon}{rest}" if known else name

    entries = [
        msgspec.structs.replace(
            each,
            **{key: whole(getattr(each, key)) for key in ("profile", "course", *PLUGIN_KEYS)},
        )
        for each in file.vehicle
    ]
    return msgspec.structs.replace(file, scene=whole(file.scene), vehicle=entries)


def parse_vehicle(text: str) -> FleetEntry:
    """Return the vehicle of ``NAME=PROFILE,KEY=VALUE,...``; a key with a dot is one of the profile.
    Raises :class:`SetupError`."""
    name, equals, rest = text.partition("=")
    profile, *items = rest.split(",")
    if not equals or not profile:
        raise SetupError(
            f"--vehicle {shown(text)}: write NAME=PROFILE, such as a=art or "
            "a=art,course=lot17,laps=2"
        )
    table: dict[str, Any] = {"name": name, "profile": profile}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise SetupError(
                f"--vehicle {shown(text)}: {shown(item)} is no KEY=VALUE; a value that holds a "
                "comma belongs in a file: --fleet FILE.toml"
            )
        if "." in key:
            table.setdefault("set", []).append(item)
        elif key == "fail":
            table.setdefault("fail", []).append(value)
        else:
            table[key] = _number(value)
    entry, problems = build_table(FleetEntry, table)
    if problems:
        raise SetupError(f"--vehicle {shown(text)}: {problems[0]}")
    found: FleetEntry = entry
    return found


def varied(
    entries: Sequence[FleetEntry], radio: RadioModel, overrides: Sequence[str]
) -> tuple[list[FleetEntry], RadioModel, tuple[str, ...]]:
    """Apply the overrides ``fleet.NAME.KEY=VALUE`` of one vehicle and ``radio.KEY=VALUE`` of the
    channel, and return the rest, which holds for all vehicles. Raises :class:`SetupError`."""
    _check_names(entries)
    tables = {each.name: _table(each) for each in entries}
    channel, rest = _table(radio), list[str]()
    for text in overrides:
        key, _, value = text.partition("=")
        kind, _, of_one = key.partition(".")
        if kind == "radio":
            channel[of_one] = _number(value)
        elif kind == "fleet":
            name, _, own = of_one.partition(".")
            if name not in tables:
                raise SetupError(
                    f"--set {shown(text)}: no vehicle is called {shown(name)}; the fleet has "
                    f"{', '.join(sorted(tables))}"
                )
            if "." in own:
                tables[name]["set"] = [*tables[name]["set"], f"{own}={value}"]
            else:
                tables[name][own] = _number(value.strip('"'))
        else:
            rest.append(text)
    found = [_built(FleetEntry, table, f"--set fleet.{name}") for name, table in tables.items()]
    return found, _built(RadioModel, channel, "--set radio"), tuple(rest)


def _table(made: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(made)
    return {key: value for key, value in plain.items() if value is not None}


def _built(kind: type[Any], table: dict[str, Any], where: str) -> Any:
    made, problems = build_table(kind, table)
    if problems:
        raise SetupError(f"{where}: {problems[0]}")
    return made


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class FleetVehiclePlan(Struct, frozen=True):
    """Vehicle of a fleet that has been loaded and checked."""

    entry: FleetEntry
    plan: Plan
    course: str
    """Name or file of the course, for daemon and simulator."""


class FleetPlan(Struct, frozen=True):
    """Loaded and checked fleet, vehicles in the order of their names."""

    vehicles: list[FleetVehiclePlan]
    radio: RadioModel = RadioModel()
    seed: int = 0
    """Seed of the run, from which those of the vehicles are drawn."""

    def order(
        self,
        sockets: Sequence[int],
        timeout_s: float,
        *,
        ends: bool,
        trace: bool,
        watched: bool = False,
    ) -> bytes:
        """Return the order to the simulator. ``sockets``: descriptors, one for each vehicle;
        ``ends``: the first contact of a vehicle ends its run; ``watched``: a page shows it."""
        orders = [
            VehicleOrder(
                name=each.entry.name,
                arguments=_simulator_arguments(each, descriptor, ends=ends),
                delay_s=each.entry.delay_s,
            )
            for each, descriptor in zip(self.vehicles, sockets, strict=True)
        ]
        return msgspec.json.encode(
            FleetOrder(
                vehicles=orders,
                timeout_s=timeout_s,
                greeting_s=GREETING_S,
                radio=self.radio,
                seed=self.seed,
                clock=self.vehicles[0].plan.spec.clock,
                trace=trace,
                watched=watched,
            )
        )


def plan_fleet(
    entries: Sequence[FleetEntry], spec: RunSpec, folder: Path, radio: RadioModel | None = None
) -> FleetPlan:
    """Load and check the vehicles. ``spec`` holds what is common to all; ``folder`` takes the
    courses that begin elsewhere. Raises :class:`SetupError` with the name of the vehicle."""
    _check_names(entries)
    return FleetPlan(
        [_planned(each, spec, folder) for each in sorted(entries, key=lambda each: each.name)],
        radio or RadioModel(),
        spec.seed,
    )


def _check_names(entries: Sequence[FleetEntry]) -> None:
    if not 1 <= len(entries) <= MOST:
        raise SetupError(f"a fleet has 1 to {MOST} vehicles, not {len(entries)}")
    known = set[str]()
    for entry in entries:
        if not VEHICLE_NAME.fullmatch(entry.name):
            raise SetupError(
                f"vehicle {shown(entry.name)}: a name has 1 to 32 small letters, digits, - and _, "
                "and begins with a letter or a digit"
            )
        if entry.name in known:
            raise SetupError(f"two vehicles are called {entry.name}: give each a name of its own")
        known.add(entry.name)


def _planned(entry: FleetEntry, spec: RunSpec, folder: Path) -> FleetVehiclePlan:
    own = msgspec.structs.replace(
        spec,
        profile=entry.profile or spec.profile,
        overrides=(*spec.overrides, *entry.set),
        course=entry.course or spec.course,
        laps=spec.laps if entry.laps is None else entry.laps,
        controller=entry.controller or spec.controller,
        estimator=entry.estimator or spec.estimator,
        link=entry.link or spec.link,
        latency=entry.latency or spec.latency,
        seed=seed_of(spec.seed, entry.name) if entry.seed is None else entry.seed,
    )
    try:
        plan = Plan.of(own)
        named = plan.spec.course or plan.loaded.profile.course
        if entry.from_m is not None:
            lap = Plan.of(msgspec.structs.replace(own, laps=1)).course
            path = folder / f"{entry.name}.json"
            path.write_bytes(to_json(course_from(lap, entry.from_m)))
            named = str(path)
    except UserError as error:
        raise SetupError(f"vehicle {entry.name}: {error}") from error
    return FleetVehiclePlan(entry, plan, named)


def seed_of(seed: int, name: str) -> int:
    """Return the seed of a vehicle: vehicles of one profile must not share their noise, and a
    vehicle keeps its own whoever else is in the fleet."""
    return int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:4], "big")


def course_from(course: Course, from_m: float) -> Course:
    """Return the course with its start at an arc length; an open one loses what lies before, and
    its markings. Raises :class:`SetupError` beyond the end of an open one."""
    if course.closed:
        return course.beginning_at(from_m)
    if not 0.0 <= from_m <= course.length_m - 1.0:
        raise SetupError(
            f"from_m = {from_m:g}: the open course {course.name} is {course.length_m:.1f} m long; "
            f"give 0 to {course.length_m - 1.0:.1f}"
        )
    k = int(np.abs(course.s_m - from_m).argmin())
    if not k:
        return course
    start_m = float(course.s_m[k])
    waits = [(wait.s_m - start_m, wait.duration_s) for wait in course.waits if wait.s_m >= start_m]
    return replace(
        course,
        x_m=course.x_m[k:],
        y_m=course.y_m[k:],
        yaw_rad=course.yaw_rad[k:],
        curvature_per_m=course.curvature_per_m[k:],
        s_m=course.s_m[k:] - start_m,
        speed_mps=course.speed_mps[k:],
        length_m=course.length_m - start_m,
        markings=NO_MARKINGS,
        waits=waits_at(*zip(*waits, strict=True)) if waits else (),
    )


def _common_arguments(vehicle: FleetVehiclePlan) -> list[str]:
    spec = vehicle.plan.spec
    arguments = ["--profile", vehicle.plan.loaded.path, "--course", vehicle.course]
    arguments += ["--seed", str(spec.seed), "--link", spec.link]
    for override in spec.overrides:
        arguments += ["--set", override]
    return arguments


def _simulator_arguments(vehicle: FleetVehiclePlan, descriptor: int, *, ends: bool) -> list[str]:
    arguments = [*_common_arguments(vehicle), "--listen", f"fd:{descriptor}"]
    if vehicle.entry.start:
        arguments += ["--start", vehicle.entry.start]
    if ends:
        arguments.append("--end-on-contact")
    for failure in vehicle.entry.fail:
        arguments += ["--fail", failure]
    return arguments


def daemon_arguments(vehicle: FleetVehiclePlan, descriptor: int, timeout_s: float) -> list[str]:
    """Return the arguments of ``vehicled`` for the daemon of a vehicle. ``timeout_s``: longest wait
    of the simulator for another daemon."""
    spec = vehicle.plan.spec
    arguments = ["sim", "--connect", f"fd:{descriptor}", "--json", "--quiet"]
    arguments += [*_common_arguments(vehicle), "--laps", str(spec.laps)]
    if spec.clock == "wall":
        arguments += ["--clock", "wall", "--name", vehicle.entry.name]
        arguments += ["--async-backend", spec.backend]
        if not spec.shared_clock:
            arguments.append("--strict-clock")
    # The simulator waits for slower daemons meanwhile, or for them to start.
    arguments += ["--link-timeout", f"{timeout_s + DAEMON_MARGIN_S:g}"]
    if spec.programme:
        arguments += ["--programme", spec.programme]
    if spec.board:
        arguments += ["--board", spec.board]
    if spec.duration_s is not None:
        arguments += ["--duration", repr(spec.duration_s)]
    if spec.log_folder is None:
        arguments.append("--no-log")
    elif spec.log_folder:
        arguments += ["--log", str(Path(spec.log_folder) / vehicle.entry.name)]
    return arguments
