"""Writes the profile of a new vehicle: a base, and what is known of the vehicle itself."""

from collections.abc import Iterable, Sequence
from math import log, pi

from msgspec import Struct

from vehicled.profile.loading import Loaded, describe, load
from vehicled.profile.problems import Problem, ProfileError
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Profile
from vehicled.profile.toml_text import value_text
from vehicled.profile.vesc_files import VehicleFacts

CELL_V = 3.7
GRIP_MPS2 = 8.8
"""Acceleration that tyres on a dry floor hold: full throttle asks for no more."""
TOP_SHARE = 0.8
"""Speed limit over the speed that the motor can reach: what is left lets the vehicle accelerate."""
USUAL_RATES_HZ = {
    "GnssFix": 10.0,
    "ImuSample": 100.0,
    "Heading": 10.0,
    "LaserScan": 10.0,
    "RcChannels": 50.0,
}


class FoundDevice(Struct, frozen=True):
    """A device of the vehicle, as the user names it or as it answered."""

    driver: str
    port: str
    rates: dict[str, float] = {}
    """Rate of each of its messages, Hz, where it was measured."""


class Draft(Struct, frozen=True):
    """Text of a new profile."""

    text: str
    remarks: tuple[str, ...]


def nearest_base(facts: VehicleFacts, devices: Sequence[FoundDevice]) -> str:
    """Return the shipped or own profile that is most like the vehicle, by its size, its mass and
    its devices."""
    vesc = (
        any("vesc" in device.driver for device in devices)
        or facts.erpm_per_mps is not None
        or facts.pole_pairs is not None
    )
    scores: dict[str, float] = {}
    for row in describe():
        if row.problem:
            continue
        profile = load(row.path).profile
        score = 0.0
        for known, its, weight in (
            (facts.wheelbase_m, profile.vehicle.axle_distance_m, 1.0),
            (facts.mass_kg, profile.vehicle.mass_kg, 0.3),
            (facts.wheel_radius_m, profile.vehicle.drive.wheel_radius_m, 0.5),
        ):
            score += 0.0 if known is None else weight * abs(log(known / its))
        drivers = {device.driver.name for device in profile.devices.values()}
        score += 0.6 * (vesc and not any("vesc" in driver for driver in drivers))
        its_messages = {
            message for device in profile.devices.values() for message in device.messages
        }
        for message in ("GnssFix", "LaserScan", "Heading") if devices else ():
            has = any(message in _produced(device.driver) for device in devices)
            score += 0.15 * (has != (message in its_messages))
        scores[row.name] = score
    # Where nothing distinguishes them, the commonest vehicle of its size.
    return min(scores, key=lambda name: (round(scores[name], 3), name != "f1tenth_gnss", name))


def _produced(driver: str) -> set[str]:
    return {message.__name__ for message in resolve("driver", driver).produces}


def draft(
    name: str,
    base: str,
    facts: VehicleFacts,
    devices: Sequence[FoundDevice],
    without: Iterable[str] = (),
) -> Draft:
    """Return the text of a profile with what differs from the base. Raises ProfileError for a base
    that cannot be used."""
    loaded = load(base)
    return _Drafting(name, base, loaded, facts, devices, list(without)).run()


class _Drafting:
    def __init__(
        self,
        name: str,
        base: str,
        loaded: Loaded,
        facts: VehicleFacts,
        devices: Sequence[FoundDevice],
        without: list[str],
    ) -> None:
        self._name = name
        self._base = base
        self._profile: Profile = loaded.profile
        self._facts = facts
        self._devices = devices
        self._without = without
        self._tables: dict[str, list[str]] = {}
        self._remarks: list[str] = []

    def run(self) -> Draft:
        self._vehicle()
        self._steering()
        self._drive()
        self._ports()
        self._twin()
        head = [
            (
                f"# Written by vehicled new profile. What is not here is that of {self._base}: "
                f"vehicled profiles --show {self._name}"
            ),
            "",
            f"name = {value_text(self._name)}",
            f"base = {value_text(self._base)}",
        ]
        if self._without:
            head.append(f"without = {value_text(list(dict.fromkeys(self._without)))}")
        head.append(f'description = "{self._name}, a vehicle like {self._profile.name}"')
        tables = [
            line
            for table, lines in self._tables.items()
            if lines
            for line in ("", f"[{table}]", *lines)
        ]
        return Draft("\n".join([*head, *tables]) + "\n", tuple(self._remarks))

    def _put(self, table: str, key: str, value: object, why: str = "") -> None:
        if isinstance(value, float):
            value = float(f"{value:.4g}")
        line = f"{key} = {value_text(value)}"
        self._tables.setdefault(table, []).append(f"{line:36} # {why}" if why else line)

    def _vehicle(self) -> None:
        facts, its = self._facts, self._profile.vehicle
        if facts.wheelbase_m is not None and facts.wheelbase_m != its.axle_distance_m:
            ratio = facts.wheelbase_m / its.axle_distance_m
            self._put("vehicle", "wheelbase_m", facts.wheelbase_m)
            for key in ("track_m", "length_m", "width_m"):
                self._put(
                    "vehicle",
                    key,
                    ratio * getattr(its, key),
                    f"of {self._base} by the wheelbase: measure it",
                )
            if its.front_overhang_m is not None:
                self._put("vehicle", "front_overhang_m", ratio * its.front_overhang_m)
            pursuit = self._profile.controller.params.get("pure_pursuit")
            if self._profile.controller.name == "pure_pursuit" and pursuit is not None:
                self._put(
                    "controller.pure_pursuit", "look_ahead_min_m", ratio * pursuit.look_ahead_min_m
                )
        if facts.mass_kg is not None and facts.mass_kg != its.mass_kg:
            self._put("vehicle", "mass_kg", facts.mass_kg)

    def _vesc(self) -> str:
        """Return the table of the motor controller's parameters; empty if the base has another
        kind."""
        for name, device in self._profile.devices.items():
            if device.driver.name.startswith("vesc_"):
                return f"devices.{name}.driver.{device.driver.name}"
        return ""

    def _steering(self) -> None:
        facts, table = self._facts, self._vesc()
        its = self._profile.vehicle.steering
        if facts.steering_rate_radps is not None:
            self._put("vehicle.steering", "rate_radps", facts.steering_rate_radps)
        if facts.servo_per_rad is None:
            return
        if not table:
            self._remarks.append(
                f"{self._base} has no VESC, so that the servo of the file is not used: choose "
                "a base with one"
            )
            return
        center = 0.5 if facts.servo_center is None else facts.servo_center
        low, high = (
            end if end is not None else fixed
            for end, fixed in ((facts.servo_min, 0.15), (facts.servo_max, 0.85))
        )
        room = min(center - low, high - center)
        if room <= 0.0:
            raise ProfileError(
                [
                    Problem(
                        "servo_center",
                        f"{center:g} leaves no way to one side of {low:g} to {high:g}",
                    )
                ]
            )
        full_rad = min(room / abs(facts.servo_per_rad), 1.2)
        self._put(
            "vehicle.steering",
            "gain_rad",
            full_rad,
            "as far as the servo may go to the shorter side",
        )
        self._put("vehicle.steering", "max_wheel_rad", full_rad)
        if abs(its.offset_rad) > 0.0:
            self._put("vehicle.steering", "offset_rad", 0.0)
        self._put(table, "servo_center", center)
        self._put(table, "servo_gain", facts.servo_per_rad * full_rad)
        self._put(table, "servo_min", low)
        self._put(table, "servo_max", high)

    def _drive(self) -> None:
        facts, its, table = self._facts, self._profile.vehicle.drive, self._vesc()
        mass_kg = facts.mass_kg or self._profile.vehicle.mass_kg
        radius_m = facts.wheel_radius_m or its.wheel_radius_m
        if table and facts.erpm_per_mps is None and facts.scale() is not None:
            self._put(
                table,
                "erpm_per_mps",
                facts.scale(),
                "pole pairs, gear and wheel: push it 5 m and measure",
            )
        elif table and facts.erpm_per_mps is not None:
            self._put(table, "erpm_per_mps", facts.erpm_per_mps)
        pairs = facts.pole_pairs
        if pairs is None and facts.erpm_per_mps is not None and facts.gear is not None:
            pairs = max(
                1, round(abs(facts.erpm_per_mps) * 2.0 * pi * radius_m / (60.0 * facts.gear))
            )
        if table and pairs is not None:
            self._put(
                table,
                "pole_pairs",
                pairs,
                "" if facts.pole_pairs else "by erpm_per_mps, gear and wheel",
            )
        if table and facts.erpm_offset:
            self._put(table, "erpm_offset", facts.erpm_offset)
        if not any(
            (facts.mass_kg, facts.wheel_radius_m, facts.gear, facts.motor_kv, facts.motor_current_a)
        ):
            return
        ratio = its.gear_ratio if facts.gear is None else 1.0 / facts.gear
        reduced, its_reduced = radius_m * ratio, its.wheel_radius_m * its.gear_ratio
        authority = its.stall_torque_nm * its_reduced / its.inertia_kgm2
        free_mps = its.no_load_speed_radps * its_reduced
        friction = its.friction_nm * its_reduced / its.inertia_kgm2
        its_authority, current_a = authority, facts.motor_current_a
        if facts.motor_kv is not None and facts.gear is not None:
            newton_per_a = 60.0 / (2.0 * pi * facts.motor_kv) / reduced
            if facts.cells is not None:
                free_mps = facts.motor_kv * facts.cells * CELL_V * 2.0 * pi / 60.0 * reduced
            if current_a is not None:
                current_a = min(current_a, GRIP_MPS2 * mass_kg / newton_per_a)
                authority = newton_per_a * current_a / mass_kg
        elif facts.motor_kv is not None:
            self._remarks.append(
                "the motor's KV says nothing without the gear (turns of the motor for one of "
                "the wheel): --gear"
            )
            current_a = None
        inertia = mass_kg * reduced * reduced
        torque = inertia / reduced
        self._put(
            "vehicle.drive",
            "stall_torque_nm",
            authority * torque,
            f"{authority:.2f} m/s2 at full throttle",
        )
        self._put("vehicle.drive", "no_load_speed_radps", free_mps / reduced, f"{free_mps:.1f} m/s")
        self._put(
            "vehicle.drive",
            "friction_nm",
            friction * torque,
            f"{friction:.2g} m/s2, as {self._base}",
        )
        self._put("vehicle.drive", "gear_ratio", ratio)
        self._put("vehicle.drive", "wheel_radius_m", radius_m)
        self._put("vehicle.drive", "inertia_kgm2", inertia, "of the mass")
        if table and current_a is not None and facts.motor_kv is not None:
            self._put(
                table,
                "max_current_a",
                current_a,
                "at full throttle, by the controller and the tyres",
            )
        top_mps = TOP_SHARE * free_mps
        if top_mps < self._profile.limits.max_speed_mps:
            self._put("limits", "max_speed_mps", top_mps, "of the motor's")
            self._put(
                "limits",
                "capped_speed_mps",
                min(0.25 * top_mps, self._profile.limits.capped_speed_mps),
            )
        speed = getattr(self._profile.controller.selected, "speed", None)
        if speed is not None and abs(authority / its_authority - 1.0) > 0.02:
            gains = f"controller.{self._profile.controller.name}.speed"
            self._put(
                gains,
                "p",
                speed.p * its_authority / authority,
                f"as {self._base}, by its acceleration",
            )
            self._put(gains, "i", speed.i * its_authority / authority)
        if facts.cells is not None and table:
            self._put("limits", "battery_low_v", 3.4 * facts.cells, "3.4 V a cell")
            self._put("limits", "battery_empty_v", 3.2 * facts.cells)

    def _ports(self) -> None:
        taken: set[str] = set()
        for device in self._devices:
            messages = _produced(device.driver)
            consumes = {message.__name__ for message in resolve("driver", device.driver).consumes}
            wanted = [
                name
                for name, table in self._profile.devices.items()
                if name not in taken
                and ("ActuatorCommand" in table.messages) == ("ActuatorCommand" in consumes)
                and (set(table.messages) & (messages | consumes)) - {"OperatorCommand"}
            ]
            # The one of the same driver first: a receiver may give position, heading or both.
            wanted.sort(key=lambda name: self._profile.devices[name].driver.name != device.driver)
            if wanted:
                self._port(wanted[0], device)
                taken.add(wanted[0])
            else:
                self._added(device, messages)
        if self._devices:
            left = [
                name
                for name, table in self._profile.devices.items()
                if name not in taken and table.port
            ]
            if left:
                cure = f"name it, or leave the device out: --without devices.{left[0]}"
                self._remarks.append(
                    f"still as in {self._base}: the port of {', '.join(left)}; {cure}"
                )

    def _port(self, name: str, device: FoundDevice) -> None:
        table = f"devices.{name}"
        self._put(table, "port", device.port)
        if self._profile.devices[name].driver.name != device.driver:
            self._without.append(f"{table}.driver")
            self._put(table, "driver", device.driver)
            self._tables.pop(f"{table}.driver.{self._profile.devices[name].driver.name}", None)

    def _added(self, device: FoundDevice, messages: set[str]) -> None:
        given = [message for message in USUAL_RATES_HZ if message in messages]
        if not given:
            self._remarks.append(
                f"{device.driver} at {device.port} gives nothing that {self._base} uses: add "
                "it by hand"
            )
            return
        name = {
            "LaserScan": "scanner",
            "GnssFix": "gnss",
            "ImuSample": "imu",
            "RcChannels": "rc",
        }.get(given[0], "sensor")
        number = 2
        while name in self._profile.devices or f"devices.{name}" in self._tables:
            name, number = f"{name.rstrip('0123456789')}{number}", number + 1
        table = f"devices.{name}"
        self._put(table, "port", device.port)
        self._put(table, "driver", device.driver)
        self._put(table, "messages", given[:1])
        self._put(
            table,
            "rate_hz",
            device.rates.get(given[0], USUAL_RATES_HZ[given[0]]),
            "" if device.rates else "check it",
        )
        if given[0] == "RcChannels":
            self._remarks.append(
                "an RC receiver needs the table [rc], which says what its channels do: docs/rc.md"
            )

    def _twin(self) -> None:
        sim = self._profile.sim
        changed = any(table.startswith("vehicle") for table in self._tables)
        if sim.plant == "double_track" and changed:
            # The twin file is of another vehicle.
            self._without.append("sim.twin")
            self._put("sim", "plant", "four_dof", "with the numbers of [vehicle]")
            dynamic = (
                self._profile.estimator.name == "ekf4"
                and self._profile.estimator.selected.model == "dynamic"
            )
            if dynamic:
                self._put("estimator.ekf4", "model", "kinematic", "its tyres are not known")
        if self._facts.cells is not None:
            self._put("sim.battery", "nominal_v", CELL_V * self._facts.cells)
            self._put("sim.battery", "full_v", 3.9 * self._facts.cells)
