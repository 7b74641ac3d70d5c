"""``vehicled devices list | record | decode``."""

import csv
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import anyio
import msgspec

from vehicled.app import SetupError
from vehicled.cli.show import Progress, print_table
from vehicled.messages import PortState
from vehicled.registry import resolve

Decoded = tuple[str, object]


def record(arguments: Namespace) -> int:
    """Write what a port sends to a file until Ctrl-C or the time is up; beside it, when each piece arrived."""
    from vehicled.runtime.loop import new_event_loop
    from vehicled.runtime.ports import AddressError, make_port

    try:
        port = make_port("recorded", arguments.port)
    except AddressError as error:
        raise SetupError(str(error)) from error
    target = Path(arguments.output)
    arrivals = Path(f"{target}.times")
    try:
        with target.open("xb") as data, arrivals.open("w") as times:
            recorder = Recorder(data, times)

            async def run() -> None:
                with anyio.move_on_after(arguments.duration):
                    await port.serve(recorder)

            try:
                with suppress(KeyboardInterrupt):
                    anyio.run(run, backend_options={"loop_factory": new_event_loop})
            finally:
                recorder.progress.close()
    except FileExistsError:
        raise SetupError(f"{target} exists: choose another name, a recording is not overwritten") from None
    except OSError as error:
        raise SetupError(f"{target} cannot be written: {error.strerror}") from error
    if not recorder.total:
        target.unlink()
        arrivals.unlink()
        print(f"nothing was received, nothing is kept: {recorder.trouble or 'the port is open but silent'}", file=sys.stderr)
        return 1
    print(f"{target}: {recorder.total} bytes in {recorder.pieces} pieces; arrival times in {arrivals}")
    return 0


class Recorder:
    """Host of one port: writes what it hears."""

    def __init__(self, data: IO[bytes], times: IO[str]) -> None:
        self._data = data
        self._times = times
        self._started_ns = time.monotonic_ns()
        self.progress = Progress()
        self.total = 0
        self.pieces = 0
        self.trouble = ""
        times.write(f"# offset bytes monotonic_ns; monotonic 0 is UTC {time.time_ns() - self._started_ns} ns\n")

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Say so."""
        self.trouble = "" if state is PortState.OPENED else detail
        waits = "; waiting for it, Ctrl-C ends" if self.trouble else ""
        print(f"{state.name.lower()}: {detail}{waits}", file=sys.stderr)

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Write it."""
        self._data.write(data)
        self._times.write(f"{self.total} {len(data)} {t_rx_ns}\n")
        self.total += len(data)
        self.pieces += 1
        if self.progress.due():
            seconds = (t_rx_ns - self._started_ns) * 1e-9
            self.progress.show(f"{self.total} bytes, {self.total / max(seconds, 1e-9):.0f} bytes/s, {seconds:.0f} s")


def decode(arguments: Namespace) -> int:
    """Count and show what a recording holds."""
    source = Path(arguments.file)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise SetupError(f"{source} cannot be read: {error.strerror}") from error
    decoder = resolve("decoder", arguments.type)
    found: Iterable[Decoded] = decoder(data)
    counts: Counter[str] = Counter()
    if arguments.csv:
        found = _into_csv(found, arguments.csv, arguments.only)
    for name, value in found:
        counts[name] += 1
        if arguments.show and (not arguments.only or name == arguments.only):
            print(name, _text(value))
    if not counts:
        print(
            f"{source}: no message of type {arguments.type} in {len(data)} bytes: is it another device's recording?",
            file=sys.stderr,
        )
        return 1
    if arguments.only and arguments.only not in counts:
        print(f"{source}: no message {arguments.only!r}; there are {', '.join(sorted(counts))}", file=sys.stderr)
        return 1
    print_table(f"{source}, {len(data)} bytes", ["message", "count"], [[name, str(n)] for name, n in counts.most_common()])
    return 0


def _into_csv(found: Iterable[Decoded], file: str, only: str | None) -> Iterator[Decoded]:
    """Pass the messages on, and write their fields: one column for each field that any message of the file has."""
    rows: list[dict[str, Any]] = []
    columns: dict[str, None] = {"message": None}
    for name, value in found:
        if not only or name == only:
            row = {"message": name, **_fields(value)}
            columns.update(dict.fromkeys(row))
            rows.append(row)
        yield name, value
    try:
        with Path(file).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(columns))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise SetupError(f"{file} cannot be written: {error.strerror}") from error


def _fields(value: object) -> dict[str, Any]:
    if isinstance(value, msgspec.Struct):
        return {name: _cell(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _cell(item) for name, item in value._asdict().items()}
    return {"value": _cell(value)}


def _cell(value: object) -> object:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else value


def _text(value: object) -> str:
    return " ".join(f"{name}={item}" for name, item in _fields(value).items())
