"""Unicore receiver as a base station. Commands: NOTES-unicore.md."""

from math import hypot, nan, radians
from typing import ClassVar

from drivers.gnss.base_station import STATION_PERIOD_S, BaseStage, BaseStation, News, Place
from drivers.gnss.unicore import (
    MAX_CONTENT_BYTES,
    NMEA,
    OVERHEAD_BYTES,
    PROTOCOLS,
    TEXT,
    TYPES,
    BestNav,
    judge_of,
    name_of,
    position_problem,
    read,
    version_of,
)
from drivers.set_up import ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.wire.framing import Protocol
from vehicled.core.wire.geodesy import geodetic_to_ecef
from vehicled.core.wire.usage import Unused

DISPENSABLE = ("RTCM1230",)
"""Messages whose refusal is no failure: only rovers with GLONASS of other makers need the
biases."""


class UnicoreBase(BaseStation):
    """Base station on a serial port or USB. The receiver ends its survey after a time; it takes no
    limit of accuracy here."""

    name = "unicore"
    protocols: ClassVar[tuple[Protocol, ...]] = PROTOCOLS
    longest_frame = MAX_CONTENT_BYTES + OVERHEAD_BYTES + 1

    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: News) -> None:
        name = name_of(protocol, frame)
        if protocol == NMEA:
            if name == "command":
                self.replies.append(frame[1:].partition(b"*")[0].decode("ascii"))
            else:
                self.usage.refuse(name, Unused.OTHER_PROTOCOL)
            return
        if name == "VERSION" and protocol == TEXT:
            self.replies.append(frame.partition(b"*")[0].decode("ascii"))
            self.usage.use(name)
            return
        found = read(protocol, frame)
        if found is None or not isinstance(found[1], BestNav):
            self.usage.refuse(name, Unused.NOT_READ)
            return
        nav = found[1]
        self.usage.use(name)
        sigma_m = hypot(nav.latitude_sigma_m, nav.longitude_sigma_m, nav.altitude_sigma_m)
        place = geodetic_to_ecef(
            radians(nav.latitude_deg), radians(nav.longitude_deg), nav.altitude_m + nav.undulation_m
        )
        if self.surveying:
            # A base station reports its fixed position with errors of 0.
            finished = nav.solution == 0 and nav.kind == TYPES["FIXEDPOS"]
            self.on_position(None, nan, t_rx_ns, messages)
            self.on_survey(t_rx_ns, messages, sigma_m=sigma_m, ecef_m=place if finished else None)
        else:
            self.on_position(
                place if position_problem(nav) is None else None, sigma_m, t_rx_ns, messages
            )

    def script(self, stage: BaseStage, ecef_m: Place | None) -> Script:
        """Read the model, then set mode and messages of this port. Nothing is saved in the
        receiver."""
        version = yield SetUpRequest("report its model", b"VERSIONA\r\n", version_of, optional=True)
        params, lacking = self.params, []
        # Leaving the base mode first makes a new survey begin.
        commands = ["UNLOG", "MODE ROVER", "BESTNAVB 1"]
        if stage is not BaseStage.LOCATE:
            place = (
                f"TIME {params.survey_s}"
                if ecef_m is None
                else " ".join(f"{each:.4f}" for each in ecef_m)
            )
            commands.append(f"MODE BASE {params.station} {place}")
            commands += [
                f"RTCM1005 {STATION_PERIOD_S}",
                *(f"RTCM{each} 1" for each in params.observations),
            ]
            commands.append(f"RTCM1230 {STATION_PERIOD_S}")
        for command in commands:
            done = yield SetUpRequest(command, command.encode() + b"\r\n", judge_of(command))
            if not isinstance(done, Refusal):
                continue
            if not command.startswith(DISPENSABLE):
                raise ConfigurationError(f"the receiver refuses {command}: {done.reason}")
            lacking.append(command.partition(" ")[0])
        return {"model": version or "unknown", "lacking": lacking}
