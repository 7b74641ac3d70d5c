"""Process of the live view of a fleet: one page shows all vehicles and stops them. ``python -m
vehicled.live.view.fleet_server``.

It asks each daemon for its state by its control socket, and ends with its pipe. An emergency stop
takes a connection of its own to each daemon, so that it waits for no other request.
"""

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from websockets.asyncio.server import ServerConnection

from vehicled.core.plain_text import printable
from vehicled.live.control_socket.protocol import ActionRequest, WatchRequest, encode
from vehicled.live.view.assets import PAGE_FOLDER, load_assets
from vehicled.live.view.connection import Connection
from vehicled.live.view.fleet_wire import FleetCars, FleetVehicleFacts, FleetViewConfig
from vehicled.live.view.page_server import (
    MAX_MESSAGE_BYTES,
    PAGE_QUEUE,
    PageServer,
    encoded,
    note_message,
    run_child,
)
from vehicled.log.frames import HEAD

TICK_S = 0.1
RATE_HZ = 10.0
"""Rate at which each daemon sends its state."""
AGAIN_S = 0.3
"""Time between two attempts to reach a daemon, s."""
ANSWER_S = 0.5
"""Longest wait for a daemon to take a stop before it is sent again, s."""
STOP_S = 10.0
"""Time for which a stop is sent again to a daemon that does not answer, s."""
MAX_LINE_BYTES = 1 << 20
MAX_READ_BYTES = 64 << 10
"""Message of a page beyond which its connection ends; a smaller one is answered."""
SHOWN = 200
"""Longest reason that is shown, characters."""
EVERYONE = "*"
STOPS = frozenset({"CONTROLLED_STOP", "BRAKE", "DISABLE"})
"""Reactions that stop a vehicle."""


class StopMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """Request of a page for an emergency stop."""

    do: Literal["emergency_stop"]
    who: str
    """Name of a vehicle; ``*`` for all."""


class VehicleLink:
    """Daemon of one vehicle as the page sees it."""

    def __init__(self, facts: FleetVehicleFacts) -> None:
        self.facts = facts
        self._newest: dict[str, Any] = {}
        self._received_s: float | None = None

    async def watch(self) -> None:
        """Keep the newest state of the daemon, until cancelled."""
        while True:
            with suppress(OSError, ValueError, TypeError, KeyError, asyncio.IncompleteReadError):
                await self._read()
            await asyncio.sleep(AGAIN_S)

    async def _read(self) -> None:
        reader, writer = await asyncio.open_unix_connection(
            self.facts.control_socket, limit=MAX_LINE_BYTES
        )
        try:
            writer.write(encode(WatchRequest(RATE_HZ)))
            while line := await reader.readline():
                self._newest = _shown(msgspec.json.decode(line)["status"])
                self._received_s = time.monotonic()
        finally:
            writer.close()

    def state(self) -> dict[str, Any]:
        """Return its newest state, with the age in s; null before the first one."""
        age_s = None if self._received_s is None else round(time.monotonic() - self._received_s, 2)
        return self._newest | {"age_s": age_s}

    async def emergency_stop(self, origin: str) -> str:
        """Send an emergency stop until the daemon has taken it; return why it did not, or an empty
        text."""
        line, end_s = encode(ActionRequest("emergency_stop", origin)), time.monotonic() + STOP_S
        why = ""
        while time.monotonic() < end_s:
            try:
                async with asyncio.timeout(ANSWER_S):
                    answer = await self._asked(line)
                if answer.get("ok"):
                    return ""
                why = str(answer.get("why"))
            except TimeoutError:
                why = "it does not answer"
            except (FileNotFoundError, ConnectionRefusedError):
                return "its daemon does not run"
            except (OSError, ValueError, AttributeError) as error:
                why = str(error)
            await asyncio.sleep(0.05)
        return printable(why, SHOWN)

    async def _asked(self, line: bytes) -> dict[str, Any]:
        reader, writer = await asyncio.open_unix_connection(
            self.facts.control_socket, limit=MAX_LINE_BYTES
        )
        try:
            writer.write(line)
            answer: dict[str, Any] = msgspec.json.decode(await reader.readline())
            return answer
        finally:
            writer.close()


def _shown(status: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of the state of a daemon."""
    estimate = status["estimate"] or {}
    stops = [link["reason"] for link in status["chain"] if link["reaction"] in STOPS]
    return {
        "mode": str(status["mode"]),
        "why": printable(str(status["why"]), SHOWN),
        "stop": printable(str(stops[-1]), SHOWN) if stops else "",
        "speed_mps": estimate.get("speed_mps"),
        "x": estimate.get("x_m"),
        "y": estimate.get("y_m"),
        "yaw": estimate.get("yaw_rad"),
    }


class FleetServer(PageServer):
    """Server of the child process."""

    def __init__(self, opening: FleetViewConfig) -> None:
        own = load_assets(Path(__file__).with_name("fleet_page"))
        super().__init__(opening.token, opening.names, {**load_assets(PAGE_FOLDER), **own})
        self.links = {each.name: VehicleLink(each) for each in opening.vehicles}
        self._pages: list[Connection] = []
        self._stops: set[asyncio.Task[None]] = set()
        self._number = 0
        self._ticks = 0
        self._cars = FleetCars([], (0.0, 0.0, 0.0))

    async def follow(self, reader: asyncio.StreamReader) -> None:
        """Take the other traffic from the command until the pipe ends."""
        with suppress(asyncio.IncompleteReadError):
            while True:
                length, _ = HEAD.unpack(await reader.readexactly(HEAD.size))
                data = await reader.readexactly(length)
                self._cars = msgspec.msgpack.decode(data, type=FleetCars)

    async def tick(self) -> None:
        """Send the states of all vehicles to all pages, encoded once."""
        while True:
            await asyncio.sleep(TICK_S)
            self._ticks += 1
            states = {name: link.state() for name, link in self.links.items()}
            tick = {"k": "tick", "n": self._ticks, "vehicles": states}
            if self._cars.poses:
                tick |= {"cars": self._cars.poses, "car_outline_m": self._cars.outline_m}
            text = encoded(tick)
            for page in self._pages:
                page.put(text)

    async def serve(self, socket: ServerConnection) -> None:
        """Serve one page."""
        page = Connection(socket, *PAGE_QUEUE)
        self._number += 1
        origin = f"fleet page {self._number} at {page.peer}"
        facts = [
            {
                "name": each.name,
                "port": each.view_port,
                "course": msgspec.to_builtins(each.course),
                "outline_m": each.outline_m,
            }
            for each in (link.facts for link in self.links.values())
        ]
        page.put_first(encoded({"k": "hello", "vehicles": facts}))
        self._pages.append(page)
        sender = asyncio.create_task(page.send())
        try:
            async for text in page.messages():
                self._on_message(page, text, origin)
        finally:
            sender.cancel()
            self._pages.remove(page)

    def _on_message(self, page: Connection, text: str | bytes, origin: str) -> None:
        try:
            if len(text) > MAX_MESSAGE_BYTES:
                raise ValueError
            who = msgspec.json.decode(text, type=StopMessage).who
            names = list(self.links) if who == EVERYONE else [self.links[who].facts.name]
        except (ValueError, KeyError):
            page.put_first(note_message("not understood"))
            return
        task = asyncio.create_task(self._stop(names, origin))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _stop(self, names: list[str], origin: str) -> None:
        """Stop vehicles, all at the same time, and say to all pages what became of it."""

        async def stop(name: str) -> None:
            why = await self.links[name].emergency_stop(origin)
            text = f"{name}: {why or 'emergency stop'}"
            for page in self._pages:
                page.put_first(encoded({"k": "stopped", "who": name, "ok": not why, "text": text}))

        await asyncio.gather(*map(stop, names))

    def make_room(self, asked: str) -> bool:
        """Close the oldest page, so that a person with the token can always open one and stop."""
        oldest = next((page for page in self._pages if page.socket in self.admitted), None)
        if oldest is None:
            return False
        self.displace(oldest)
        return True

    def close(self) -> None:
        """Send all pages the end of the run."""
        for page in self._pages:
            page.put_first(encoded({"k": "over"}))


async def run() -> None:
    """Serve until the pipe ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0)
    )
    length, _ = HEAD.unpack(await reader.readexactly(HEAD.size))
    opening = msgspec.msgpack.decode(await reader.readexactly(length), type=FleetViewConfig)
    server = FleetServer(opening)
    async with AsyncExitStack() as stack:
        if not await server.listen_as_child(
            stack, opening.host, opening.port, max_size=MAX_READ_BYTES
        ):
            return
        tasks = [asyncio.create_task(link.watch()) for link in server.links.values()]
        tasks.append(asyncio.create_task(server.tick()))
        await server.follow(reader)
        for task in tasks:
            task.cancel()
        server.close()
        # Leave time to send the last messages.
        await asyncio.sleep(0.05)


def main() -> int:
    """Run the process."""
    return run_child(run)


if __name__ == "__main__":
    sys.exit(main())
