"""Septentrio receiver as a base station. Commands: NOTES.md."""

from math import nan
from typing import ClassVar

from drivers.gnss.base_station import STATION_PERIOD_S, BaseStage, BaseStation, News, Place
from drivers.gnss.septentrio import (
    ANSWER,
    MAX_BLOCK_BYTES,
    NMEA,
    PROMPT,
    PROTOCOLS,
    UNKNOWN_U16,
    UNKNOWN_U32,
    PvtGeodetic,
    answer_to,
    name_of,
    position_problem,
    prompt,
    read,
)
from drivers.set_up import ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.wire.framing import Protocol
from vehicled.core.wire.geodesy import geodetic_to_ecef
from vehicled.core.wire.usage import Unused

_FIXED_PLACE, _DETERMINING = 3, 1 << 6


class SeptentrioBase(BaseStation):
    """Base station on a serial port, USB or TCP.

    The receiver averages its position without a limit of time or accuracy. Once it calls it
    determined and ``survey_s`` have passed, the position is written as a fixed one, because the
    receiver would refine it further.
    """

    name = "septentrio"
    protocols: ClassVar[tuple[Protocol, ...]] = PROTOCOLS
    longest_frame = MAX_BLOCK_BYTES + 1
    fixes_survey = True

    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: News) -> None:
        if protocol in (ANSWER, PROMPT):
            self.replies.append(frame.decode("ascii").rstrip())
            return
        if protocol == NMEA:
            self.usage.refuse("NMEA", Unused.OTHER_PROTOCOL)
            return
        name, block = name_of(frame), read(frame)
        if not isinstance(block, PvtGeodetic) or block.tow_ms >= UNKNOWN_U32:
            self.usage.refuse(name, Unused.NOT_READ)
            return
        self.usage.use(name)
        known = UNKNOWN_U16 not in (block.horizontal_2drms_cm, block.vertical_2sigma_cm)
        sigma_m = (
            (block.horizontal_2drms_cm**2 + block.vertical_2sigma_cm**2) ** 0.5 * 0.005
            if known
            else nan
        )
        place = geodetic_to_ecef(block.latitude_rad, block.longitude_rad, block.height_m)
        if self.surveying:
            static = block.mode & 0xF == _FIXED_PLACE and not block.error
            finished = (
                static
                and not block.mode & _DETERMINING
                and self.surveying_s >= self.params.survey_s
            )
            self.on_position(None, nan, t_rx_ns, messages)
            self.on_survey(t_rx_ns, messages, sigma_m=sigma_m, ecef_m=place if finished else None)
        else:
            self.on_position(
                place if position_problem(block) is None else None, sigma_m, t_rx_ns, messages
            )

    def script(self, stage: BaseStage, ecef_m: Place | None) -> Script:
        """Learn the name of the port, then set mode, station and messages. Nothing is saved in the
        receiver."""
        port = yield SetUpRequest("name its port", b"\rSSSSSSSSSS\r\r", prompt)
        params = self.params
        commands = [
            f"setSBFOutput, Stream1, {port}, PVTGeodetic, sec1",
            f"setDataInOut, {port}, auto, {'SBF' if stage is BaseStage.LOCATE else 'SBF+RTCMv3'}",
        ]
        if stage is BaseStage.LOCATE:
            commands.append("setPVTMode, Rover")
        elif ecef_m is None:
            commands.append("setPVTMode, Static, , auto")
        else:
            x, y, z = ecef_m
            commands += [
                f"setStaticPosCartesian, Cartesian1, {x:.4f}, {y:.4f}, {z:.4f}, WGS84",
                "setPVTMode, Static, , Cartesian1",
            ]
        if stage is not BaseStage.LOCATE:
            kinds = "+".join(f"RTCM{each}" for each in params.observations)
            commands += [
                f"setRTCMv3Formatting, {params.station}",
                f"setRTCMv3Interval, MSM{params.msm}, 1",
                f"setRTCMv3Interval, RTCM1005|6+RTCM1230, {STATION_PERIOD_S}",
                f"setRTCMv3Output, {port}, RTCM1005+{kinds}+RTCM1230",
            ]
        for command in commands:
            done = yield SetUpRequest(command, command.encode() + b"\r", answer_to(command))
            if isinstance(done, Refusal):
                raise ConfigurationError(f"the receiver refuses {command}: {done.reason}")
        return {"port": port, "lacking": []}
