"""Commands ``vehicled devices list | record | decode``; ``ouster`` is in
:mod:`vehicled.cli.ouster`."""

import csv
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import anyio
import msgspec

from vehicled.cli.can_files import CanFile, kind_of, unpacked
from vehicled.cli.drive_options import SECONDS
from vehicled.cli.ouster import declare_devices_ouster as declare_devices_ouster
from vehicled.core.errors import SetupError
from vehicled.core.messages import PortState
from vehicled.core.wire.can import pack
from vehicled.core.wire.usage import MessageUsage
from vehicled.offline.recordings.foreign.recognise import Recognised, recognise
from vehicled.profile import plugins
from vehicled.profile.registry import names, resolve
from vehicled.profile.supported_devices import MEANING, SUPPORTED
from vehicled.run.argument_types import DECODER, TEXT
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import Progress, print_table
from vehicled.runtime.ports.probe import judge

Decoded = tuple[str, object]


def declare_devices_list(parser: CommandParser) -> None:
    """List the supported devices, and the evidence that each driver fits its devices."""
    parser.describe(
        examples=("vehicled devices list", "vehicled devices list lidar"),
        epilog="Exit status: 0 listed; 1 nothing fits WORD; 2 invalid arguments.",
    )
    parser.add_argument(
        "word", type=TEXT, nargs="?", default="", metavar="WORD",
        help="only devices with this word: a driver, a maker, a model, scans, CAN, ...",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=list_devices)


def declare_devices_record(parser: CommandParser) -> None:
    """Record the bytes that a port receives."""
    parser.describe(
        epilog=(
            "Exit status: 0 recorded; 1 nothing was received, and no file written; 2 invalid "
            "arguments."
        ),
    )
    parser.add_argument(
        "port",
        type=TEXT,
        metavar="URL",
        help="serial:/dev/serial/by-id/...?baud=N, tcp:HOST:PORT, tls:HOST:PORT, can:can0, ...",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="output file; for a CAN bus FILE.log (candump), .asc, .blf or .csv",
    )
    parser.add_argument(
        "--duration", type=SECONDS, metavar="S", help="stop after S seconds (default: until Ctrl-C)"
    )
    parser.set_defaults(run=record)


def declare_devices_decode(parser: CommandParser) -> None:
    """Count and show the messages of a recording."""
    formats = sorted({*names("decoder"), *names("CAN decoder")})
    parser.describe(
        epilog=(
            "Exit status: 0 messages were found; 1 none, or none of --only; 2 the file or its "
            "format cannot be read."
        ),
    )
    parser.add_argument("file", metavar="FILE", help="recording, such as a capture or a CAN log")
    parser.add_argument(
        "--type",
        type=DECODER,
        metavar="T",
        help=(
            "format, or your own decoder FILE.py:NAME (default: detected from the content): "
            f"{', '.join(formats)}"
        ),
    )
    parser.add_argument("--only", type=TEXT, metavar="NAME", help="only messages of this name")
    parser.add_argument("--show", action="store_true", help="print every message")
    parser.add_argument("--csv", metavar="FILE", help="write the message fields to this file")
    parser.set_defaults(run=decode)


def list_devices(arguments: Namespace) -> int:
    """List the supported devices."""
    word = arguments.word.lower()
    found = [each for each in SUPPORTED if word in each.text.lower()]
    if arguments.json:
        print(msgspec.json.encode(found).decode())
    elif found:
        rows = [[each.names, each.devices, each.ports, each.evidence.value] for each in found]
        print_table("", ["driver", "devices", "wire", "evidence"], rows)
        for kind in dict.fromkeys(each.evidence for each in found):
            print(f"{kind.value}: {MEANING[kind]}")
        if len(found) == 1:
            print(f"seen: {found[0].seen}")
    if not found:
        print(
            f"no supported device has {arguments.word!r}; 'vehicled devices list' shows all, and "
            "docs/extending.md how to write a driver",
            file=sys.stderr,
        )
    return 0 if found else 1


def record(arguments: Namespace) -> int:
    """Record what a port receives until Ctrl-C or the end of the duration, with a second file of
    arrival times."""
    from vehicled.runtime.loop import new_event_loop
    from vehicled.runtime.ports import AddressError, make_port

    try:
        port = make_port("recorded", arguments.port)
    except AddressError as error:
        raise SetupError(str(error)) from error
    target = Path(arguments.output)
    arrivals = Path(f"{target}.times")
    frames = arguments.port.startswith("can:")
    kept = [target] if frames else [target, arrivals]
    try:
        target.open("xb").close()
        with ExitStack() as files:
            if frames:
                from vehicled.cli.can_files import CanRecorder

                can_file = CanRecorder(
                    target, arguments.port.removeprefix("can:").partition("?")[0].replace(":", "_")
                )
                files.callback(can_file.close)
                recorder = Recorder(
                    lambda data, t_rx_ns: can_file.write(data, recorder.utc_ns(t_rx_ns))
                )
            else:
                recorder = Recorder(
                    _bytes_writer(
                        files.enter_context(target.open("wb")),
                        files.enter_context(arrivals.open("w")),
                    )
                )

            async def run() -> None:
                with anyio.move_on_after(arguments.duration):
                    await port.serve(recorder)

            try:
                with suppress(KeyboardInterrupt):
                    anyio.run(run, backend_options={"loop_factory": new_event_loop})
            finally:
                recorder.progress.close()
    except FileExistsError:
        raise SetupError(
            f"{target} exists already and is not overwritten: choose another name"
        ) from None
    except SetupError:
        target.unlink()
        raise
    except OSError as error:
        raise SetupError(f"cannot write {target}: {error.strerror}") from error
    if not recorder.total:
        for file in kept:
            file.unlink()
        print(
            (
                "nothing was received, no file was written: "
                f"{recorder.trouble or 'the port is open but silent'}"
            ),
            file=sys.stderr,
        )
        return 1
    if frames:
        print(f"{target}: {can_file.frames} frames with their times")
    else:
        print(
            f"{target}: {recorder.total} bytes in {recorder.pieces} chunks; arrival times in "
            f"{arrivals}"
        )
    return 0


def _bytes_writer(data: IO[bytes], times: IO[str]) -> Callable[[bytes, int], None]:
    """Return a writer for received bytes and, in a second file, the arrival time of each chunk."""
    times.write(
        "# offset bytes monotonic_ns; monotonic 0 is UTC "
        f"{time.time_ns() - time.monotonic_ns()} ns\n"
    )
    offset = 0

    def write(piece: bytes, t_rx_ns: int) -> None:
        nonlocal offset
        data.write(piece)
        times.write(f"{offset} {len(piece)} {t_rx_ns}\n")
        offset += len(piece)

    return write


class Recorder:
    """Host of one port: passes received data to a writer, with the time of arrival."""

    def __init__(self, write: Callable[[bytes, int], None]) -> None:
        self._write = write
        self._started_ns = time.monotonic_ns()
        self._utc_ns = time.time_ns() - self._started_ns
        self.progress = Progress()
        self.total = 0
        self.pieces = 0
        self.trouble = ""

    def utc_ns(self, t_ns: int) -> int:
        """Return the UTC time of a monotonic time, ns."""
        return t_ns + self._utc_ns

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        self.trouble = "" if state is PortState.OPENED else detail
        waits = "; retrying, Ctrl-C to stop" if self.trouble else ""
        print(f"{state.name.lower()}: {detail}{waits}", file=sys.stderr)

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        self._write(data, t_rx_ns)
        self.total += len(data)
        self.pieces += 1
        if self.progress.due():
            seconds = (t_rx_ns - self._started_ns) * 1e-9
            self.progress.show(
                f"{self.total} bytes, {self.total / max(seconds, 1e-9):.0f} bytes/s, "
                f"{seconds:.0f} s"
            )


def decode(arguments: Namespace) -> int:
    """Count and show the messages of a recording."""
    source = Path(arguments.file)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise SetupError(f"cannot read {source}: {error.strerror}") from error
    data = unpacked(data)
    unread = recognise(data) if arguments.type is None else []
    if unread and not unread[0].frames:
        raise SetupError(f"{source} is {unread[0]}")
    kind, frames = arguments.type and plugins.absolute(arguments.type, Path()), None
    if file_kind := kind_of(data) if kind in (None, *names("CAN decoder")) else "":
        if file_kind == "screen":
            raise SetupError(
                f"{source} is candump's screen output: record with candump -l, or with "
                "vehicled devices record can:can0"
            )
        kind = kind or _can_type(data, file_kind)
        frames = CanFile(data, file_kind)
        found: Iterable[Decoded] = resolve("CAN decoder", kind)(frame for _, frame in frames)
    else:
        kind = kind or _type_of(source, data, unread)
        if kind not in names("decoder") and kind in names("CAN decoder"):
            raise SetupError(
                f"{source} is not a CAN recording: give a file of candump -l, ASC, BLF, TRC or "
                "python-can CSV"
            )
        found = resolve("decoder", kind)(data)
    if arguments.type is None:
        print(f"{source}: detected type {kind}", file=sys.stderr)
        for each in unread:
            if each.frames and kind not in each.readers:
                print(f"{source}: also holds {each}", file=sys.stderr)
    counts: Counter[str] = Counter()
    if arguments.csv:
        found = _into_csv(found, arguments.csv, arguments.only, frames)
    for name, value in found:
        counts[name] += 1
        if arguments.show and (not arguments.only or name == arguments.only):
            print(name, _text(value))
    if frames is not None and frames.note:
        print(f"{source}: {frames.note}", file=sys.stderr)
    if frames is not None and (frames.damaged or frames.fd_frames or frames.bus_events):
        left_out = f"{frames.damaged} damaged lines or blocks, {frames.fd_frames} frames of CAN FD"
        if frames.bus_events:
            left_out += f", {frames.bus_events} errors and states of the bus"
        print(f"{source}: skipped {left_out}", file=sys.stderr)
    if not counts:
        print(
            f"{source}: no message of type {kind} in {len(data)} bytes: is it from another device?",
            file=sys.stderr,
        )
        return 1
    if arguments.only and arguments.only not in counts:
        print(
            f"{source}: no message {arguments.only!r}; it contains {', '.join(sorted(counts))}",
            file=sys.stderr,
        )
        return 1
    _show_counts(
        f"{source}, {len(data)} bytes",
        counts,
        _usage(kind, data, None if frames is None else CanFile(data, file_kind)),
    )
    return 0


def _usage(kind: str, data: bytes, frames: CanFile | None) -> MessageUsage | None:
    """Return what the driver would use of a recording; None if no driver reads such recordings."""
    # Imported here, because it needs numpy, which a plain count does not.
    from vehicled.offline.recordings.listening import usage_of, usage_on_can

    if frames is None:
        return usage_of(kind, data)
    if kind != "vesc":
        return None
    recorded = [frame for _, frame in frames]
    # The controller that says most; a bus may hold several.
    speakers = Counter(
        frame.can_id & 0xFF
        for frame in recorded
        if frame.extended and frame.can_id >> 8 in _VESC_STATUS
    )
    return usage_on_can(speakers.most_common(1)[0][0] if speakers else 1, map(pack, recorded))


_VESC_STATUS = (9, 14, 15, 16, 27, 58)
"""Numbers of the status messages of a VESC on CAN."""


def _show_counts(title: str, counts: Counter[str], usage: MessageUsage | None) -> None:
    if usage is None:
        print_table(
            title, ["message", "count"], [[name, str(n)] for name, n in counts.most_common()]
        )
        return
    uses = dict(usage)
    # What the driver alone can name: lines without a checksum.
    names = [
        *(name for name, _ in counts.most_common()),
        *(name for name in uses if name not in counts),
    ]
    rows = []
    for name in names:
        use = uses.get(name)
        if use is None:
            rows.append([name, str(counts[name]), "-", "it is part of another message"])
        else:
            rows.append([name, str(counts[name] or use.arrived), str(use.used), use.text()])
    print_table(title, ["message", "count", "used", "not used, remarks"], rows)


def _type_of(source: Path, data: bytes, unread: Sequence[Recognised]) -> str:
    """Return the format that most of a recording is in. Raises SetupError if none fits, naming the
    format if it is known."""
    answer = judge(data, [], 0, 1.0, {name: resolve("decoder", name) for name in names("decoder")})
    # A decoder of text names any sentence; those of another format make the recording no one of its
    # own.
    if unread and {kind for kind, _ in answer.messages} <= set(unread[0].sentences):
        raise SetupError("\n".join(f"{source} holds {each}" for each in unread))
    if not answer.driver:
        raise SetupError(
            f"{source}: cannot detect its format; give it with --type "
            f"({', '.join(names('decoder'))})"
        )
    return answer.driver


def _can_type(data: bytes, file_kind: str) -> str:
    """Return ``vesc`` if most of the frames are those of a VESC."""
    found = [
        name
        for name, _ in resolve("CAN decoder", "vesc")(
            frame for _, frame in CanFile(data, file_kind)
        )
    ]
    foreign = sum(
        name in ("ERROR", "STANDARD", "FOREIGN") or name.startswith("PACKET_") for name in found
    )
    return "vesc" if 2 * foreign < len(found) else "can"


def _into_csv(
    found: Iterable[Decoded], file: str, only: str | None, frames: CanFile | None
) -> Iterator[Decoded]:
    """Yield the messages, and write their fields to a CSV file with a column for each field that
    occurs."""
    rows: list[dict[str, Any]] = []
    columns: dict[str, None] = (
        {"message": None} if frames is None else {"time_s": None, "message": None}
    )
    for name, value in found:
        if not only or name == only:
            row = {"message": name, **_fields(value)}
            if frames is not None:
                row["time_s"] = f"{frames.newest_s:.6f}"
            columns.update(dict.fromkeys(row))
            rows.append(row)
        yield name, value
    try:
        with Path(file).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(columns))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise SetupError(f"cannot write {file}: {error.strerror}") from error


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
