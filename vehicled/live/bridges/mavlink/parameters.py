"""Parameters of the daemon's controller under the names of MAVLink, which allows 16 characters.
Pure."""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.live.bridges.mavlink.pilot import ORIGIN, DaemonAnswer, Pilot
from vehicled.live.control_socket.protocol import ParametersRequest, SetParameterRequest

MOST = 16
REAL32 = int(mav.MAV_PARAM_TYPE_REAL32)


def names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return the parameter keys by their MAVLink names: upper case, words shortened evenly,
    numbered where two would be equal."""
    found: dict[str, str] = {}
    for key in keys:
        name = _short(key)
        number = 2
        while name in found:
            name = f"{_short(key)[: MOST - 2]}_{number}"
            number += 1
        found[name] = key
    return found


def _short(key: str) -> str:
    words = [word for part in key.upper().split(".") for word in part.split("_") if word]
    length = max(map(len, words), default=1)
    while len(name := "_".join(word[:length] for word in words)) > MOST and length > 1:
        length -= 1
    return name[:MOST]


class ParameterProtocol:
    """Lists, reads and sets parameters."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self._names: dict[str, str] = {}
        self._values: dict[str, float] = {}

    def on_list(self, _: Any) -> None:
        """Send all parameters."""

        def send_all() -> None:
            for name in self._names:
                self._send(name)

        self._refreshed(send_all)

    def on_read(self, message: Any) -> None:
        """Send one parameter, by number or name."""

        def read() -> None:
            names = list(self._names)
            number = message.param_index
            name = names[number] if 0 <= number < len(names) else _text(message.param_id)
            if name in self._names:
                self._send(name)
            else:
                self._pilot.say(f"there is no parameter {name}: see vehicled param list")

        self._refreshed(read)

    def on_set(self, message: Any) -> None:
        """Set a parameter. The value that holds is the acknowledgement."""
        self._refreshed(
            lambda: self._set(_text(message.param_id), message.param_value, message.param_type)
        )

    def _set(self, name: str, value: float, kind: int) -> None:
        if name not in self._names:
            self._pilot.say(f"there is no parameter {name}: see vehicled param list")
            return
        if kind != REAL32 or not isfinite(value):
            what = f"{value:g}" if kind == REAL32 else f"a value of type {kind}"
            self._pilot.say(
                f"parameter {name} cannot be set to {what}: it takes a finite number as REAL32"
            )
            self._send(name)
            return
        # A float of 32 bits has seven digits; the others would put a value beside the limit that it
        # was rounded to.
        value = float(f"{value:.7g}")

        def answer(_: DaemonAnswer, why: str) -> None:
            if why:
                self._pilot.say(why)
            else:
                self._values[self._names[name]] = value
            self._send(name)

        self._pilot.lanes.ask(SetParameterRequest(self._names[name], value, ORIGIN), answer)

    def _refreshed(self, then: Callable[[], None]) -> None:
        """Call a function once the daemon has sent its parameters."""

        def answer(reply: DaemonAnswer, why: str) -> None:
            if why:
                self._pilot.say(why)
                return
            self._values = {row["key"]: row["value"] for row in reply["parameters"]}
            self._names = names_of(self._values)
            then()

        self._pilot.lanes.ask(ParametersRequest(), answer)

    def _send(self, name: str) -> None:
        value, number = self._values[self._names[name]], list(self._names).index(name)
        self._pilot.send(
            mav.MAVLink_param_value_message(name.encode(), value, REAL32, len(self._names), number)
        )


def _text(value: Any) -> str:
    data = value if isinstance(value, bytes) else str(value).encode("ascii", "replace")
    text = data.split(b"\0")[0].decode("ascii", "replace")
    return "".join(character if character.isprintable() else "?" for character in text)
