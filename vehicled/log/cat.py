"""``vehicled log cat``: the messages of a log as JSON lines, to read, for jq, or for scripts in any
language."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from math import isfinite, isnan
from typing import Any

import msgspec

from vehicled.core.messages import LaserScan, Message
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import CHANNELS


def kinds_of(names: Sequence[str]) -> tuple[type[Message], ...]:
    """Return the message types of topics, given as full name, last part or type name. Raises
    :class:`LogError` if one is unknown.
    """
    known: dict[str, type[Message]] = {}
    for kind, channel in CHANNELS.items():
        known |= {channel.topic: kind, channel.topic.rsplit("/", 1)[-1]: kind, kind.__name__: kind}
    found = []
    for name in names:
        if name not in known:
            short = sorted({channel.topic.rsplit("/", 1)[-1] for channel in CHANNELS.values()})
            close = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            raise LogError(f'no topic "{name[:60]}"{hint} (there are: {", ".join(short)})')
        found.append(known[name])
    return tuple(found)


def lines(
    path: str,
    topics: Sequence[str] = (),
    *,
    start_s: float | None = None,
    stop_s: float | None = None,
    limit: int | None = None,
) -> Iterator[str]:
    """Yield one JSON object per message, in log order: ``t_s`` since the start of the run,
    ``topic``, then its fields.

    Non-finite numbers are null, bytes are hexadecimal text, enumerations are names. Raises
    :class:`LogError`.
    """
    kinds = kinds_of(topics)
    count = 0
    for part in run_parts(path):
        with LogReader(part) as log:
            origin_ns = log.header.start_monotonic_ns
            low = None if start_s is None else origin_ns + round(start_s * 1e9)
            high = None if stop_s is None else origin_ns + round(stop_s * 1e9)
            for record in log.messages(*kinds, start_ns=low, stop_ns=high):
                if limit is not None and count >= limit:
                    return
                count += 1
                yield _line(record.t_ns - origin_ns, record.message)


def _line(t_ns: int, message: Message) -> str:
    topic = CHANNELS[type(message)].topic.rsplit("/", 1)[-1]
    fields = plain_fields(message)
    return msgspec.json.encode({"t_s": t_ns * 1e-9, "topic": topic, **fields}).decode()


def plain_fields(message: Message) -> dict[str, Any]:
    """Return the fields of a message as JSON values. A scan also has ``rays``, which says of each
    ray why its range is null, because JSON has no infinite numbers."""
    fields = {name: plain(getattr(message, name)) for name in message.__struct_fields__}
    if isinstance(message, LaserScan):
        fields["rays"] = "".join(map(_ray, message.ranges_m))
    return fields


def _ray(range_m: float) -> str:
    """Return the letter of a range: r for one that is known, o (open) for no return, n for one
    nearer than the minimum, x for an invalid ray."""
    if isfinite(range_m):
        return "r"
    return "x" if isnan(range_m) else "o" if range_m > 0.0 else "n"


def plain(value: Any) -> Any:
    """Return a field as a JSON value."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else value
