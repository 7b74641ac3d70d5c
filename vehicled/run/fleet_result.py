"""Result of a fleet: one line per vehicle, and the digest of all."""

from hashlib import sha256
from math import nan
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from sim_backend.fleet.order import VehicleReport
from vehicled.core.messages import ObstacleContact, contact_text
from vehicled.run.fleet import FleetPlan, FleetVehiclePlan
from vehicled.run.fleet_processes import DaemonEnd, FleetEnd
from vehicled.run.terminal import print_table
from vehicled.runtime.ending import Outcome

AWAITED_SHARE = 0.2
"""Fraction of the run for which the others waited, from which a daemon is named as slow."""


class VehicleResult(Struct, frozen=True, kw_only=True):
    """Result of one vehicle."""

    name: str
    profile: str
    course: str
    seed: int
    finished: bool
    why: str
    """Reason of its end."""
    status: int
    """Exit status of its daemon; negative: the number of the signal that killed it."""
    driven_m: float
    """Distance that the true vehicle moved."""
    laps: float
    """Part of a lap, or of an open course, that was driven in AUTO mode."""
    laps_asked: int
    contacts: list[ObstacleContact]
    ended_s: float
    """Simulated time since the start at which its daemon ended."""
    awaited_s: float
    """Time of the computer for which all other daemons waited for this one; lockstep only."""
    missed: int
    """Deadlines that its tasks missed."""
    paused_s: float
    """Time of the computer for which its clock paused; wall clock only."""
    digest: str
    """Digest of its frames; empty if the daemon gave no result."""
    log: str
    warnings: str
    trace: list[tuple[float, float, float, float, float]] = []
    """Time, x, y, heading and speed of the true vehicle, ten times a second; for plots."""
    figures: dict[str, Any] = {}
    """Result of its daemon as ``vehicled sim --json`` gives it; empty if it gave none."""


class FleetOutcome(Struct, frozen=True, kw_only=True):
    """Result of a fleet."""

    vehicles: list[VehicleResult]
    digest: str
    """SHA-256 over names and digests of all vehicles; empty if one gave none."""
    run_s: float
    """Simulated time."""
    wall_s: float
    failure: str
    """Reason if the simulator failed; else empty."""
    interrupted: bool
    clock: str = "lockstep"
    cars: list[list[tuple[float, float, float, float, float]]] = []
    """Traces of the other traffic, as those of the vehicles."""
    car_outline_m: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @classmethod
    def of(cls, plan: FleetPlan, end: FleetEnd) -> "FleetOutcome":
        """Return the result of a fleet that has ended."""
        vehicles = [_vehicle(each, end) for each in plan.vehicles]
        return cls(
            vehicles=vehicles,
            digest=digest_of(vehicles),
            run_s=max(each.ended_s for each in vehicles),
            wall_s=end.wall_s,
            failure=end.simulator_said,
            interrupted=end.signal != 0,
            clock=plan.vehicles[0].plan.spec.clock,
            cars=end.cars,
            car_outline_m=end.car_outline_m,
        )

    @property
    def status(self) -> int:
        """Exit status of the command."""
        if self.interrupted:
            return int(Outcome.INTERRUPTED)
        all_well = not self.failure and all(each.status == 0 for each in self.vehicles)
        return int(Outcome.FINISHED if all_well else Outcome.NOT_FINISHED)

    def to_json(self) -> str:
        """Return the result as JSON, without the traces."""
        plain = msgspec.to_builtins(self)
        del plain["cars"], plain["car_outline_m"]
        for each, vehicle in zip(plain["vehicles"], self.vehicles, strict=True):
            del each["trace"], each["figures"]
            # Messages are arrays when encoded; people read names.
            each["contacts"] = [asdict(contact) for contact in vehicle.contacts]
        return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()

    def show(self) -> None:
        """Print one line per vehicle, and what holds for all."""
        columns = ["vehicle", "driven", "laps", "contacts", "how it ended", "log"]
        print_table(
            f"fleet of {len(self.vehicles)}", columns, [_row(each) for each in self.vehicles]
        )
        factor = self.run_s / self.wall_s if self.wall_s > 0.0 else nan
        print(f"speed of the run  {factor:.1f} x real time ({self.run_s:.1f} s in "
              f"{self.wall_s:.1f} s, start and end of the processes included)")  # fmt: skip
        slowest = max(self.vehicles, key=lambda each: each.awaited_s)
        if len(self.vehicles) > 1 and slowest.awaited_s > AWAITED_SHARE * self.wall_s:
            print(
                f"slowest daemon    {slowest.name}: the others waited {slowest.awaited_s:.1f} s "
                "for it; a lower rate of its tasks or another controller makes the fleet faster"
            )
        if self.clock == "wall":
            missed = ", ".join(f"{each.name} {each.missed}" for each in self.vehicles)
            paused = ", ".join(f"{each.name} {each.paused_s:.2f} s" for each in self.vehicles)
            print(f"deadlines missed  {missed}")
            print(f"clock paused for  {paused} while this computer let a process not run")
        print(f"digest            {self.digest or self._no_digest}")

    @property
    def _no_digest(self) -> str:
        missing = ", ".join(each.name for each in self.vehicles if not each.digest)
        return f"none: {missing} gave no result"


def digest_of(vehicles: list[VehicleResult]) -> str:
    """Return the digest of a fleet, in the order of names; empty if a vehicle has none."""
    if not all(each.digest for each in vehicles):
        return ""
    lines = sorted(f"{each.name} {each.digest}\n" for each in vehicles)
    return sha256("".join(lines).encode()).hexdigest()


def _vehicle(vehicle: FleetVehiclePlan, end: FleetEnd) -> VehicleResult:
    name, plan = vehicle.entry.name, vehicle.plan
    daemon, report = end.daemons[name], end.reports.get(name)
    result = daemon.result
    names = set(end.daemons)
    course_m = float(result.get("course_m") or nan)
    return VehicleResult(
        name=name,
        profile=plan.loaded.profile.name,
        course=plan.course.name,
        seed=plan.spec.seed,
        finished=daemon.status == 0,
        why=_why(daemon, report),
        status=daemon.status,
        driven_m=nan if report is None else report.driven_m,
        laps=float(result.get("driven_m") or 0.0) / course_m * plan.spec.laps,
        laps_asked=plan.spec.laps,
        contacts=_all_contacts(names, daemon, report),
        ended_s=0.0 if report is None else report.ended_s,
        awaited_s=0.0 if report is None else report.awaited_s,
        missed=sum(each["misses"] for each in result.get("tasks", [])),
        paused_s=((result.get("stalls") or {}).get("lost_ns") or 0) * 1e-9,
        digest=result.get("digest", ""),
        log=result.get("log_problem", "") or result.get("log", ""),
        warnings=daemon.said,
        trace=[] if report is None else report.trace,
        figures=result,
    )


def _why(daemon: DaemonEnd, report: VehicleReport | None) -> str:
    if daemon.result:
        return str(daemon.result["why"])
    at = "" if report is None else f" at {report.ended_s:.1f} s"
    if report is not None and report.ending == "silent":
        return f"{report.why}, so it was left behind{at}; the vehicle got no more commands"
    if daemon.status < 0:
        return (
            f"its daemon was killed by signal {-daemon.status}{at}; the vehicle got no more "
            "commands"
        )
    last = daemon.said.splitlines()[-1] if daemon.said else f"exit status {daemon.status}"
    return f"its daemon gave no result{at}: {last}"


def _row(each: VehicleResult) -> list[str]:
    laps = "" if each.laps != each.laps else f"{each.laps:.2f} of {each.laps_asked}"
    return [each.name, f"{each.driven_m:.1f} m", laps, _contacts(each.contacts), each.why, each.log]


def _all_contacts(
    names: set[str], daemon: DaemonEnd, report: VehicleReport | None
) -> list[ObstacleContact]:
    """Return the contacts with the scene, which the daemon recorded, and those with vehicles."""
    recorded = [ObstacleContact(**each) for each in daemon.result.get("contacts", [])]
    with_scene = [each for each in recorded if each.what not in names]
    with_vehicles = [] if report is None else report.contacts
    return sorted([*with_scene, *with_vehicles], key=lambda each: each.t_ns)


def _contacts(contacts: list[ObstacleContact]) -> str:
    if not contacts:
        return "none"
    return f"{len(contacts)}: {contact_text(max(contacts, key=lambda each: each.speed_mps))}"
