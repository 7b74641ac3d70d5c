"""Builds a machine from a log alone, and lists what differs between this computer and the log's."""

import platform
import tomllib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from vehicled import __version__
from vehicled.app import SetupError, Wiring, build, wire
from vehicled.executive import Stopwatch
from vehicled.journal import Sink
from vehicled.log.errors import LogError
from vehicled.log.fingerprint import numeric_fingerprint
from vehicled.log.schema import FENCE_NAME, RunHeader
from vehicled.machine import Machine
from vehicled.paths.course import Course
from vehicled.paths.stored import from_json
from vehicled.ports import TakesSecret
from vehicled.profile import Loaded, ProfileError, load, names, parse
from vehicled.replay.journal import Journal
from vehicled.safety.fence import Fence, read_geojson

CHANGEABLE = frozenset({"estimator", "identifier", "controller", "limits", "vehicle", "control_frame"})
"""Profile tables that a what-if may change. Devices and task rates are part of the recording."""
SECRET = "a secret that is in no log"  # noqa: S105 - what stands for a secret
"""Placeholder for a password: its transmission is not recorded, so any value works."""
SHOWN_KEYS = 6


class Parts:
    """Parts of the machine from the log, with the changes of a what-if."""

    def __init__(self, journal: Journal, overrides: Sequence[str] = ()) -> None:
        """Raises :class:`SetupError` for a change that a replay cannot make, and the errors of profile, course and log."""
        for override in overrides:
            table = override.partition("=")[0].partition(".")[0].strip()
            if table not in CHANGEABLE:
                raise SetupError(
                    f"--set {override}: a replay can change {', '.join(sorted(CHANGEABLE))}; "
                    "everything else is part of what was recorded"
                )
        header = journal.header
        self.header = header
        text = journal.attachment("profile.toml").decode()
        self.was: Loaded = parse(text, f"profile of {journal.parts[0].path}")
        self.loaded: Loaded = parse(text, f"profile of {journal.parts[0].path}", list(overrides)) if overrides else self.was
        self.course: Course = from_json(journal.attachment("course.json"))
        self.fence: Fence | None = None
        if self.loaded.profile.fence:
            if not journal.has_attachment(FENCE_NAME):
                raise LogError(f"{journal.parts[0].path}: the profile names a fence, and the log does not hold it")
            self.fence = read_geojson(journal.attachment(FENCE_NAME), FENCE_NAME, self.course.datum)
        self.wiring: Wiring = wire(self.loaded.profile, header.link)

    def machine(self, stopwatch: Stopwatch, sink: Sink) -> Machine:
        """Build the machine, not yet started."""
        machine = build(
            self.loaded.profile,
            self.course,
            self.wiring,
            stopwatch,
            sink,
            fence=self.fence,
            setup_fault=self.header.setup_fault,
            virtual=self.header.clock == "lockstep",
        )
        for port in machine.ports:
            device = machine.device(port)
            if isinstance(device, TakesSecret) and device.secret_ref is not None:
                device.set_secret(SECRET)
        return machine


def same_numbers(header: RunHeader) -> bool:
    """True if this computer computes bit-identically to the one that wrote the log."""
    return header.fingerprint == numeric_fingerprint()[0]


def what_differs(header: RunHeader, parts: Parts) -> list[str]:
    """Return texts about differences that can change frames; empty if none."""
    found = []
    here = {
        "vehicled": (header.vehicled_version, __version__),
        "Python": (header.python_version, platform.python_version()),
        "numpy": (header.numpy_version, np.__version__),
        "msgspec": (header.msgspec_version, version("msgspec")),
    }
    found += [
        f"{name}: the log was written with {then}, here is {now}" for name, (then, now) in here.items() if then and then != now
    ]
    digest, depends_on = numeric_fingerprint()
    if header.fingerprint and header.fingerprint != digest:
        changed = [
            f"{k} {header.fingerprint_of.get(k, '?')} -> {v}" for k, v in depends_on.items() if header.fingerprint_of.get(k) != v
        ]
        why = f" ({'; '.join(changed)})" if changed else ""
        found.append(f"numbers: fingerprint {header.fingerprint} in the log, {digest} here: the last bits may differ{why}")
    if header.profile_digest and header.profile_digest != parts.was.digest:
        found.append("profile: its text in the log is not what the header's digest says; secrets are masked there")
    shipped = _shipped(header.profile)
    if shipped is not None:
        changed = _changes(tomllib.loads(parts.was.source), tomllib.loads(shipped.source))
        if changed:
            more = f" and {len(changed) - SHOWN_KEYS} more" if len(changed) > SHOWN_KEYS else ""
            keys = ", ".join(changed[:SHOWN_KEYS])
            found.append(f"profile: the log's own is used; the present profile {header.profile} has other values: {keys}{more}")
    return found


def _shipped(name: str) -> Loaded | None:
    try:
        return load(name) if name in names() else None
    except ProfileError:
        return None


def _changes(then: dict[str, Any], now: dict[str, Any], path: str = "") -> list[str]:
    """Return the dotted keys whose values differ."""
    found = []
    for key in sorted(then.keys() | now.keys()):
        a, b = then.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += _changes(a, b, f"{path}{key}.")
        elif a != b:
            found.append(f"{path}{key}")
    return found
