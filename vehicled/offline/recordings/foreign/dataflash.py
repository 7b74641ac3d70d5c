"""ArduPilot DataFlash logs (.bin) through pymavlink: GPS, GPA, IMU and the outputs to steering and
throttle (RCOU).

Message formats: ArduPilot wiki, "Onboard message log messages" (Rover 4.x). Stamps are ``TimeUS``,
time since boot; UTC by GPS week and time of week. Axes of the IMU are the autopilot's,
forward-right-down.

Of several receivers one is read, which a note names. The accuracy of a fix is in a message of its
own (GPA), written beside the fix with the same receiver number and the same time; another
receiver's, or another epoch's, is not its accuracy.
"""

from collections import Counter
from collections.abc import Iterator
from math import cos, isfinite, nan, radians, sin
from pathlib import Path
from typing import Any

from vehicled.core.messages import (
    NAN3,
    NAN9,
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    Mode,
)
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.source import (
    ForeignFile,
    Stamped,
    diagonal,
    flu,
    place,
    positive,
    yaw_of_compass,
)

_GPS_EPOCH_S = 315_964_800
_WEEK_MS = 604_800_000
_LEAP_SECONDS = 18
"""GPS minus UTC since 2017."""
_STEERING, _THROTTLE = 26, 70
"""``SERVOn_FUNCTION`` of ground steering and of throttle."""
_FIXES = {
    0: (FixType.NONE, CarrierSolution.NONE), 1: (FixType.NONE, CarrierSolution.NONE),
    2: (FixType.FIX_2D, CarrierSolution.NONE), 3: (FixType.FIX_3D, CarrierSolution.NONE),
    4: (FixType.FIX_3D, CarrierSolution.NONE), 5: (FixType.FIX_3D, CarrierSolution.FLOAT),
    6: (FixType.FIX_3D, CarrierSolution.FIXED),
}  # fmt: skip
"""Fix types by ``GPS.Status``: 4 is differential, 5 RTK float, 6 RTK fixed."""
_RECEIVERS = {"GPS": 0, "GPS2": 1, "GPSB": 2}
_ACCURACIES = {"GPA": 0, "GPA2": 1, "GPAB": 2}
"""Receiver of each message without a field ``I``, as of versions before 4.1."""
_BLENDED = 2
"""Number of the mean of two receivers, which none of them measured."""
_SAME_EPOCH_US = 20_000
"""Fix and accuracy are written at once; an epoch lasts longer than this."""


def read(path: Path, vehicle: Vehicle) -> ForeignFile:
    """A log. Raises :class:`RecordingError`."""
    try:
        from pymavlink.DFReader import DFReader_binary
    except ImportError:
        raise RecordingError(
            f"{path}: DataFlash logs are read by the library pymavlink, which is not "
            'installed: pip install "vehicled[ardupilot]"'
        ) from None
    log: Any = DFReader_binary.__new__(DFReader_binary)
    try:
        # Stamps are taken from TimeUS itself, not from the clock that the library makes up.
        log.__init__(str(path), zero_time_base=True)
    except Exception as error:
        _close(log)
        raise RecordingError(
            f"{path}: cannot be read as a DataFlash log: {type(error).__name__}: {error}"
        ) from error
    notes: list[str] = []
    return ForeignFile(
        format="ArduPilot DataFlash",
        messages=_Conversion(path, log, vehicle, notes).messages(),
        notes=notes,
    )


def _close(log: Any) -> None:
    """The library leaves its file open, even one that it could not read."""
    for name in ("data_map", "filehandle"):
        if (held := getattr(log, name, None)) is not None:
            held.close()


class _Conversion:
    def __init__(self, path: Path, log: Any, vehicle: Vehicle, notes: list[str]) -> None:
        self._path = path
        self._log = log
        self._vehicle = vehicle
        self._notes = notes
        self._parameters: dict[str, float] = {}
        self._receiver = 0
        self._accuracy: Any = None
        self._pending: Any = None
        """Fix whose accuracy has not been read yet."""
        self._outputs: tuple[int, int] | None = None

    def messages(self) -> Iterator[Stamped]:
        """Yield the messages in file order."""
        try:
            yield from self._read()
        finally:
            _close(self._log)

    def _next(self, kinds: list[str]) -> Any:
        try:
            return self._log.recv_match(type=kinds)
        except Exception as error:
            raise RecordingError(
                f"{self._path}: cannot be read on: {type(error).__name__}: {error}"
            ) from error

    def _read(self) -> Iterator[Stamped]:
        self._receiver = self._best_receiver()
        while (
            message := self._next(["PARM", *_RECEIVERS, *_ACCURACIES, "IMU", "RCOU"])
        ) is not None:
            kind = message.get_type()
            if kind == "PARM":
                self._parameters[message.Name] = float(message.Value)
            elif kind in _ACCURACIES:
                if _number(message, _ACCURACIES) == self._receiver:
                    self._accuracy = message
                    if self._pending is not None and self._accuracy_of(self._pending) is not None:
                        yield from self._completed()
            elif kind in _RECEIVERS:
                if _number(message, _RECEIVERS) == self._receiver:
                    yield from self._completed()
                    self._pending = message
                    if self._accuracy_of(message) is not None:
                        yield from self._completed()
            elif getattr(message, "I", 0) == 0:
                # The first of several instances; the others say the same thing again.
                t_ns = int(message.TimeUS) * 1000
                yield t_ns, {"IMU": self._sample, "RCOU": self._command}[kind](message, t_ns)
        yield from self._completed()

    def _best_receiver(self) -> int:
        """Return the receiver to read, by a first pass: the one that the autopilot used, else the
        one with the best fixes."""
        used, quality, fixes = Counter[int](), Counter[int](), Counter[int]()
        while (message := self._next(list(_RECEIVERS))) is not None:
            number = _number(message, _RECEIVERS)
            fixes[number] += 1
            used[number] += int(getattr(message, "U", 0))
            quality[number] += int(message.Status)
        self._log.rewind()
        real = [number for number in sorted(fixes) if number != _BLENDED] or sorted(fixes)
        if not real:
            return 0
        by_use = used.total() > 0 and max(used, key=lambda number: used[number]) in real
        chosen = max(real, key=lambda number: used[number] if by_use else quality[number])
        if len(fixes) > 1:
            why = "which the autopilot used most" if by_use else "whose fixes are the best"
            others = ", ".join(
                f"{number}: {fixes[number]} fixes" for number in sorted(fixes) if number != chosen
            )
            self._notes.append(f"GPS {chosen} is read, {why}; not read: {others}")
        return chosen

    def _accuracy_of(self, gps: Any) -> Any:
        """Return the accuracy of a fix; None if the last one read is of another epoch."""
        accuracy = self._accuracy
        same = accuracy is not None and abs(int(accuracy.TimeUS) - int(gps.TimeUS)) < _SAME_EPOCH_US
        return accuracy if same else None

    def _completed(self) -> Iterator[Stamped]:
        """Yield the fix that waited for its accuracy, and the heading beside it."""
        gps, self._pending = self._pending, None
        if gps is None:
            return
        t_ns, accuracy = int(gps.TimeUS) * 1000, self._accuracy_of(gps)
        yield t_ns, self._fix(gps, accuracy, t_ns)
        yaw_deg = float(getattr(gps, "Yaw", 0.0))
        if isfinite(yaw_deg) and yaw_deg != 0.0:
            # 0 says that the receiver has none; north is 360.
            sigma_rad = radians(positive(float(getattr(accuracy, "YAcc", nan))))
            heading: Message = Heading(
                t_ns, t_ns, yaw_of_compass(radians(yaw_deg)), sigma_rad, HeadingKind.MOVING_BASE
            )
            yield t_ns, heading

    def _fix(self, gps: Any, accuracy: Any, t_ns: int) -> GnssFix:
        latitude, longitude = place(gps.Lat, gps.Lng)
        kind, carrier = _FIXES.get(int(gps.Status), (FixType.NONE, CarrierSolution.NONE))
        course = radians(gps.GCrs)
        velocity = (gps.Spd * sin(course), gps.Spd * cos(course), -float(getattr(gps, "VZ", nan)))
        position, speeds, vdop = NAN9, NAN9, nan
        if accuracy is not None:
            h, v, s = (
                positive(float(getattr(accuracy, name, nan))) for name in ("HAcc", "VAcc", "SAcc")
            )
            # HAcc is of both axes together.
            position, speeds = diagonal(h / 2**0.5, h / 2**0.5, v), diagonal(s, s, s)
            vdop = float(getattr(accuracy, "VDop", nan))
        utc_ns = 0
        if int(gps.GWk) > 0:
            utc_ns = (
                (_GPS_EPOCH_S - _LEAP_SECONDS) * 1000 + int(gps.GWk) * _WEEK_MS + int(gps.GMS)
            ) * 1_000_000
        return GnssFix(
            t_ns, t_ns, latitude, longitude, float(gps.Alt),
            velocity_enu_mps=velocity if kind >= FixType.FIX_2D else NAN3,
            position_covariance_m2=position, velocity_covariance_m2ps2=speeds, fix_type=kind,
            carrier=carrier, differential=int(gps.Status) >= 4, satellites=min(int(gps.NSats), 255),
            hdop=float(gps.HDop), vdop=vdop, utc_ns=utc_ns,
        )  # fmt: skip

    def _sample(self, imu: Any, t_ns: int) -> ImuSample:
        celsius = float(getattr(imu, "T", nan))
        return ImuSample(
            t_ns, t_ns, flu(imu.AccX, imu.AccY, imu.AccZ), flu(imu.GyrX, imu.GyrY, imu.GyrZ),
            temperature_k=celsius + ZERO_CELSIUS_K if isfinite(celsius) else nan,
        )  # fmt: skip

    def _command(self, outputs: Any, t_ns: int) -> ActuatorCommand:
        if self._outputs is None:
            self._outputs = self._function(_STEERING, 1), self._function(_THROTTLE, 3)
            self._notes.append(
                f"commands: steering is output {self._outputs[0]}, throttle output "
                f"{self._outputs[1]}"
            )
        steering, throttle = (self._share(outputs, number) for number in self._outputs)
        # ArduPilot steers to the right with a positive output.
        angle = self._vehicle.steering.wheel_angle_rad(-steering)
        return ActuatorCommand(t_ns, t_ns, throttle, 0.0, -steering, angle, Mode.AUTO)

    def _function(self, function: int, default: int) -> int:
        return next(
            (n for n in range(1, 15) if self._parameters.get(f"SERVO{n}_FUNCTION") == function),
            default,
        )

    def _share(self, outputs: Any, number: int) -> float:
        """-1 to 1 from a pulse width, by the parameters of the output."""
        pulse = float(getattr(outputs, f"C{number}", 0))
        low, trim, high = (
            self._parameters.get(f"SERVO{number}_{name}", default)
            for name, default in (("MIN", 1100), ("TRIM", 1500), ("MAX", 1900))
        )
        if pulse <= 0.0 or not low < trim < high:
            return 0.0
        share = (pulse - trim) / ((high - trim) if pulse >= trim else (trim - low))
        return min(
            max(-share if self._parameters.get(f"SERVO{number}_REVERSED") else share, -1.0), 1.0
        )


def _number(message: Any, defaults: dict[str, int]) -> int:
    """Return the receiver of a message."""
    return int(getattr(message, "I", defaults[message.get_type()]))
