"""Several worlds on one grid: each vehicle has its own world, in which the others are moving
bodies. Pure, as :mod:`sim_backend.world`.

All vehicles make the same grid step before anything of one reaches another: sensors see the others
at their poses of the last grid point, and contact is resolved pair by pair, in the order of names,
between two steps. So neither the order in which the daemons answer nor that of the worlds matters.
"""

from collections.abc import Sequence
from itertools import combinations
from math import degrees, hypot

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from sim_backend.contact.fit import check_start
from sim_backend.contact.plant import ContactPoint
from sim_backend.emulators.interface import NEVER_NS
from sim_backend.fleet.bodies import VehicleBody
from sim_backend.fleet.collision import Collider, VehiclePair, overlap
from sim_backend.fleet.radio import RadioChannel
from sim_backend.plant.interface import Motion, StartPose, VehicleLostError, pushable
from sim_backend.plant.registry import plant_class
from sim_backend.scenario import default_start
from sim_backend.scene.reading import load_scene
from sim_backend.scene.scene import Scene, ScenePose
from sim_backend.scene.traffic import STEP_S, Traffic, other_vehicle, traffic_of
from sim_backend.world import Arrival, World, WorldSetup
from vehicled.core.errors import SetupError
from vehicled.profile import plugins

SEEING = frozenset({"LaserScan", "ObstacleRange"})
"""Messages of the sensors that see other vehicles."""
MAX_CONTACTS = 1000
TRACE_NS = 100_000_000
"""Interval of the recorded poses."""


class FleetMember(Struct, frozen=True):
    """Vehicle of a fleet as its user asks for it."""

    name: str
    setup: WorldSetup
    delay_s: float = 0.0
    """Time after the start of the run at which the scenario begins to arm it."""


class TracePose(Struct, frozen=True, array_like=True):
    """True pose and speed of a vehicle at one time."""

    time_s: float
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float


class FleetVehicle:
    """Vehicle in the world of a fleet."""

    def __init__(
        self, member: FleetMember, start_ns: int, utc_ns: int, traffic: Traffic | None = None
    ) -> None:
        setup = member.setup
        self.name = member.name
        self.world: World = WorldSetup(
            profile=setup.profile, course=setup.course, seed=setup.seed, wires=setup.wires,
            failures=setup.failures, scenario=False, start=setup.start,
        ).world(start_ns, utc_ns, traffic)  # fmt: skip
        if setup.scenario:
            self.world.begin_scenario(start_ns + round(member.delay_s * 1e9))
        self.arrivals: list[Arrival] = []
        """Bytes that have reached the daemon's ports and were not taken yet, in order."""
        self.lag_ns = 0
        """Time by which the clock of this vehicle is behind that of the fleet; 0 in lockstep."""
        self.lost: str = ""
        """Reason why the vehicle is simulated no longer; empty while it is. It stays where it
        is."""
        self.driven_m = 0.0
        """Distance that the true vehicle has moved."""
        self.contacts: list[ContactPoint] = []
        """Contacts with other vehicles, harder ones of the same touch included."""
        self.trace: list[TracePose] = []
        self._motion = self.world.motion
        self._to_ns = start_ns
        self.rigid = self.world.rigid
        """Plant that contact pushes; None for one that cannot be pushed."""

    @property
    def motion(self) -> Motion:
        """True motion at the last grid point that was measured; of a vehicle that is lost the last
        place, at standstill."""
        return self._motion

    def advance(self, to_ns: int) -> None:
        """Advance the world and keep what arrives. A vehicle that is lost stays where it is."""
        self._to_ns = to_ns
        if self.lost:
            return
        try:
            self.arrivals += self.world.advance(to_ns)
        except VehicleLostError as error:
            self._lose(str(error))
        except Exception as error:
            # Code of the user's, such as a plant, ends the run of this vehicle alone.
            if not plugins.place_of(error):
                raise
            self._lose(f"the simulator failed: {plugins.describe(error)}")

    def report(self, contacts: list[ContactPoint], fleet_ns: int) -> None:
        """Report contacts, whose times are those of the fleet, with what then arrives at once."""
        shift_s = (self.world.grid_ns - fleet_ns) * 1e-9
        self.world.report_contacts(
            [each._replace(time_s=each.time_s + shift_s) for each in contacts]
        )
        self.advance(self._to_ns)

    def _lose(self, why: str) -> None:
        self.lost = why
        # What a diverged plant says of itself must not reach the others.
        self._motion = standing(self._motion)

    def take(self) -> list[Arrival]:
        """Return the arrivals since the last call."""
        taken, self.arrivals = self.arrivals, []
        return taken

    def measure(self) -> None:
        """Take the motion at the newest grid point."""
        if self.lost:
            return
        before, self._motion = self._motion, self.world.motion
        self.driven_m += hypot(self._motion.x_m - before.x_m, self._motion.y_m - before.y_m)


def standing(motion: Motion) -> Motion:
    """Return the motion with the velocities of a vehicle that stands."""
    return replace(motion, speed_mps=0.0, lateral_speed_mps=0.0, yaw_rate_radps=0.0)


class _SeenBody:
    """Body of a vehicle in the scenes of its observers, whose clocks agree."""

    def __init__(
        self, vehicle: FleetVehicle, observers: list[FleetVehicle], body: VehicleBody
    ) -> None:
        self._vehicle, self._observers, self._body = vehicle, observers, body
        self._grid_ns = self._observed_ns = vehicle.world.grid_ns

    def follow(self, start_ns: int) -> None:
        """Take the newest pose, if the time of the observers has gone on."""
        observed_ns = max((each.world.grid_ns for each in self._observers), default=0)
        if observed_ns <= self._observed_ns:
            return
        vehicle = self._vehicle
        # Where its own time stands, the others see it stand.
        moves = vehicle.world.grid_ns > self._grid_ns
        motion = vehicle.motion if moves else standing(vehicle.motion)
        self._grid_ns, self._observed_ns = vehicle.world.grid_ns, observed_ns
        self._body.follow((observed_ns - start_ns) * 1e-9, motion)


class Fleet:
    """Vehicles that see each other and collide."""

    def __init__(
        self,
        members: list[FleetMember],
        start_ns: int,
        utc_ns: int,
        radio: RadioChannel | None = None,
        *,
        traced: bool = False,
        lags: bool = False,
        seed: int = 0,
    ) -> None:
        """Build all worlds, in the order of names. Without ``radio`` no message arrives.
        ``traced``: keep the poses of all vehicles; memory then grows with the run. ``lags``: the
        clocks of the vehicles may differ, see :meth:`advance_each`. ``seed``: of the traffic.

        The members must have passed :func:`check_members`; raises what
        :class:`sim_backend.world.World` raises.
        """
        members = sorted(members, key=lambda member: member.name)
        self._start_ns = self._grid_ns = self._now_ns = self._traced_ns = start_ns
        sim = members[0].setup.profile.sim
        self._step_ns = round(sim.step_ms * 1e6)
        self.traffic = traffic_among(members, seed)
        """Cars on the lanes of the scene, the same for all vehicles; None without any."""
        self._decides_ns = start_ns + round(STEP_S * 1e9) if self.traffic else NEVER_NS
        self.car_traces: list[list[TracePose]] = [
            [] for _ in (self.traffic.bodies if self.traffic else ())
        ]
        """Poses of the cars, if they are kept."""
        self.vehicles = [FleetVehicle(member, start_ns, utc_ns, self.traffic) for member in members]
        """Vehicles in the order of their names."""
        step_s = self._step_ns * 1e-9
        outlines = [member.setup.profile.vehicle.outline for member in members]
        self._outlines = outlines
        self._bodies = list[_SeenBody]()
        for outline, vehicle in zip(outlines, self.vehicles, strict=True):
            others = [each for each in self.vehicles if each is not vehicle]
            # With clocks of their own, each of them sees a vehicle at other times.
            for observers in [[each] for each in others] if lags else [others]:
                body = VehicleBody(outline, vehicle.motion, step_s)
                self._bodies.append(_SeenBody(vehicle, observers, body))
                for observer in observers:
                    observer.world.scene.add_vehicle(body)
        self._seen = any(_sees(member) for member in members)
        colliders = [
            Collider(vehicle.name, outline, rigid, member.setup.profile.vehicle.mass_kg)
            for vehicle, outline, member in zip(self.vehicles, outlines, members, strict=True)
            if (rigid := vehicle.rigid) is not None and member.setup.profile.sim.contact != "none"
        ]
        self._pairs = [VehiclePair(a, b, step_s) for a, b in combinations(colliders, 2)]
        self._radio, self._traced = radio, traced
        self._of = {vehicle.name: vehicle for vehicle in self.vehicles}
        if traced:
            self._trace()

    def advance(self, to_ns: int) -> None:
        """Advance all vehicles to a time; the bytes that arrive until then are in each vehicle's
        :attr:`FleetVehicle.arrivals`."""
        self.advance_each([to_ns] * len(self.vehicles))

    def advance_each(self, times_ns: Sequence[int]) -> None:
        """Advance each vehicle to a time of its own clock, in the order of names. One whose time
        stands is seen to stand, and the others go on."""
        self._carry_broadcasts()
        step_ns = self._step_ns
        while True:
            grids_ns = [vehicle.world.grid_ns for vehicle in self.vehicles]
            most = max(
                0 if vehicle.lost else -((grid_ns - to_ns) // step_ns)
                for vehicle, grid_ns, to_ns in zip(self.vehicles, grids_ns, times_ns, strict=True)
            )
            # Until a sensor looks or two may touch, each vehicle is alone.
            quiet = 0 if self._seen else min((pair.unwatched for pair in self._pairs), default=1000)
            until = (self._decides_ns - self._now_ns) // step_ns
            steps = max(1, min(quiet, most, until))
            for vehicle, grid_ns, to_ns in zip(self.vehicles, grids_ns, times_ns, strict=True):
                vehicle.advance(min(grid_ns + steps * step_ns, to_ns))
            if most > 0:
                self._grid_ns += steps * step_ns
                self._meet(steps)
                self._publish()
            if most <= steps:
                return

    def _carry_broadcasts(self) -> None:
        """Pass on what the vehicles have sent, in the order of their names, whatever order their
        daemons answered in."""
        places_m = {each.name: (each.motion.x_m, each.motion.y_m) for each in self.vehicles}
        for vehicle in self.vehicles:
            for t_ns, state in vehicle.world.take_broadcasts():
                if self._radio is None:
                    continue
                for each in self._radio.broadcast(vehicle.name, t_ns, state, places_m):
                    receiver = self._of[each.receiver]
                    if not receiver.lost:
                        # Both stamps in the receiver's time.
                        lag_ns = vehicle.lag_ns - receiver.lag_ns
                        sent = replace(each.state, t_ns=each.state.t_ns + lag_ns)
                        receiver.world.receive(sent, each.arrival_ns + lag_ns)

    def _meet(self, steps: int) -> None:
        """Resolve contact after grid steps."""
        time_s = (self._grid_ns - self._start_ns) * 1e-9
        for pair in self._pairs:
            vehicles = [self._of[name] for name in pair.names]
            for vehicle in vehicles:
                if vehicle.lost:
                    at = vehicle.motion
                    pair.hold(vehicle.name, ScenePose(at.x_m, at.y_m, at.yaw_rad))
            pair.unwatched -= steps
            if pair.unwatched >= 0:
                continue
            if all(vehicle.lost for vehicle in vehicles) or not pair.resolve(time_s):
                continue
            for other in self._pairs:
                if other is not pair and set(other.names) & set(pair.names):
                    other.renew()
            for vehicle, contacts in zip(vehicles, pair.contacts, strict=True):
                vehicle.contacts += contacts[: max(MAX_CONTACTS - len(vehicle.contacts), 0)]
                if contacts and not vehicle.lost:
                    vehicle.report(contacts, self._grid_ns)
                contacts.clear()

    def _publish(self) -> None:
        """Let the others see where each vehicle is now."""
        for vehicle in self.vehicles:
            vehicle.measure()
        if self._seen:
            for seen in self._bodies:
                seen.follow(self._start_ns)
        self._now_ns = max(self._now_ns, *(each.world.grid_ns for each in self.vehicles))
        while self.traffic is not None and self._now_ns >= self._decides_ns:
            others = [
                other_vehicle(vehicle.motion, outline)
                for vehicle, outline in zip(self.vehicles, self._outlines, strict=True)
            ]
            self.traffic.step((self._decides_ns - self._start_ns) * 1e-9, others)
            self._decides_ns += round(STEP_S * 1e9)
        if self._traced and self._now_ns >= self._traced_ns + TRACE_NS:
            self._trace()

    def _trace(self) -> None:
        self._traced_ns = self._now_ns
        time_s = (self._now_ns - self._start_ns) * 1e-9
        for vehicle in self.vehicles:
            at = vehicle.motion
            vehicle.trace.append(TracePose(time_s, at.x_m, at.y_m, at.yaw_rad, at.speed_mps))
        for trace, pose in zip(self.car_traces, self.cars, strict=True):
            trace.append(pose)

    @property
    def cars(self) -> list[TracePose]:
        """Poses of the other traffic now."""
        time_s = (self._now_ns - self._start_ns) * 1e-9
        found = []
        for body in self.traffic.bodies if self.traffic else ():
            x_m, y_m, yaw_rad, vx_mps, vy_mps = body.state(time_s)
            found.append(TracePose(time_s, x_m, y_m, yaw_rad, hypot(vx_mps, vy_mps)))
        return found


def traffic_among(members: Sequence[FleetMember], seed: int) -> Traffic | None:
    """Return the traffic of a fleet; None without any. Raises :class:`SceneError`."""
    first = members[0].setup
    starts = []
    for member, scene in zip(members, map(_scene_of, members), strict=True):
        setup = member.setup
        start = setup.start or default_start(setup.profile)
        pose = check_start(scene, setup.profile, setup.course, start)
        starts.append(ScenePose(*pose))
    sim = first.profile.sim
    return traffic_of(sim.traffic, sim.scene, first.course.datum, seed, starts)


def _sees(member: FleetMember) -> bool:
    devices = member.setup.profile.devices.values()
    return any(SEEING & set(device.messages) for device in devices)


def check_members(members: list[FleetMember]) -> None:
    """Raise :class:`SetupError` for vehicles that cannot share a world, with the cure."""
    if len({member.name for member in members}) < len(members):
        raise SetupError("two vehicles have one name: give each its own")
    first = members[0]
    scenes = [_scene_of(member) for member in members]
    for member, scene in zip(members, scenes, strict=True):
        _check_like(first, member)
        if not _same_parts(scenes[0], scene):
            raise SetupError(
                f"vehicles {first.name} and {member.name} would drive in different scenes: give "
                "one --scene for all, whose parts stand at places of the map and not along a course"
            )
        if member.setup.start == "push":
            raise SetupError(
                f"vehicle {member.name}: start = push is for one vehicle alone: use stand or align"
            )
        sim = member.setup.profile.sim
        if sim.contact != "none" and not pushable(plant_class(sim.plant)):
            raise SetupError(
                f"vehicle {member.name}: sim.plant {sim.plant} has no rigid_body and strike, by "
                "which contact pushes it (docs/scenes.md): write them, or set sim.contact = "
                '"none"'
            )
    _check_starts(members, scenes)


def _check_like(first: FleetMember, member: FleetMember) -> None:
    """Check what all vehicles must have in common."""
    ours, theirs = first.setup, member.setup
    if ours.profile.sim.step_ms != theirs.profile.sim.step_ms:
        raise SetupError(
            f"vehicle {first.name} has sim.step_ms {ours.profile.sim.step_ms:g} and vehicle "
            f"{member.name} {theirs.profile.sim.step_ms:g}: give both the same"
        )
    if ours.profile.sim.traffic != theirs.profile.sim.traffic:
        raise SetupError(
            f"vehicles {first.name} and {member.name} have different sim.traffic: give both the "
            "same"
        )
    if ours.course.datum != theirs.course.datum:
        raise SetupError(
            f"vehicle {first.name} drives course {ours.course.name} and vehicle {member.name} "
            f"course {theirs.course.name}, whose maps have different origins on the earth: "
            "choose courses of one map"
        )


def _scene_of(member: FleetMember) -> Scene:
    return load_scene(member.setup.profile.sim.scene, member.setup.course)


def _same_parts(one: Scene, other: Scene) -> bool:
    return (
        np.array_equal(one.segments_m, other.segments_m)
        and one.circle_state == other.circle_state
        and len(one.moving) == len(other.moving)
    )


def _check_starts(members: list[FleetMember], scenes: list[Scene]) -> None:
    """Raise :class:`SetupError` if a vehicle would start inside another."""
    poses: list[StartPose] = []
    for member, scene in zip(members, scenes, strict=True):
        setup = member.setup
        start = setup.start or default_start(setup.profile)
        poses.append(check_start(scene, setup.profile, setup.course, start))
    for (one, at), (other, other_at) in combinations(zip(members, poses, strict=True), 2):
        outlines = one.setup.profile.vehicle.outline, other.setup.profile.vehicle.outline
        if overlap(outlines[0], ScenePose(*at), outlines[1], ScenePose(*other_at)):
            raise SetupError(
                f"vehicle {other.name} would start inside vehicle {one.name}, at "
                f"({other_at.x_m:.2f}, {other_at.y_m:.2f}) m, heading "
                f"{degrees(other_at.yaw_rad):.0f} degrees: let one of them start further along "
                "its course with from_m, or choose another course or start"
            )
