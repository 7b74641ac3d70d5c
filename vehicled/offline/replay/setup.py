"""Builds a machine from a log alone, and lists what differs between this computer and the log's."""

import atexit
import hashlib
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from vehicled import __version__
from vehicled.core.errors import SetupError
from vehicled.core.executive import Stopwatch
from vehicled.core.journal import Sink
from vehicled.core.ports import TakesSecret
from vehicled.core.tasks import PIPELINE
from vehicled.daemon.app import Wiring, build, wire
from vehicled.daemon.machine import Machine
from vehicled.log.errors import LogError
from vehicled.log.fingerprint import numeric_fingerprint
from vehicled.log.members import safe_member
from vehicled.log.schema import FENCE_NAME, PluginRow, RunHeader, file_attachment, plugin_attachment
from vehicled.maps.grid import OccupancyGrid
from vehicled.maps.map_file import map_of
from vehicled.offline.replay.journal import Journal
from vehicled.paths.course import Course
from vehicled.paths.stored import from_json
from vehicled.profile import Loaded, ProfileError, load, names, parse
from vehicled.profile.plugins import label, renamed
from vehicled.profile.problems import dotted
from vehicled.profile.showing import shown
from vehicled.run.world_files import MAP_KEY
from vehicled.safety.fence import Fence, read_geojson

Code = Literal["same", "log", "changed"]
"""Source of a run's plugins: files that must be unchanged, the texts in the log, or files that may
have been changed."""
CHANGEABLE = frozenset(
    {"estimator", "identifier", "controller", "limits", "vehicle", "control_frame"}
)
"""Profile tables that a what-if may change. Devices and task rates are part of the recording."""
SECRET = "a secret that is in no log"  # noqa: S105 - what stands for a secret
"""Placeholder for a password: its transmission is not recorded, so any value works."""
SHOWN_KEYS = 6


class Parts:
    """Parts of the machine from the log, with the changes of a what-if."""

    def __init__(
        self, journal: Journal, overrides: Sequence[str] = (), *, code: Code = "same"
    ) -> None:
        """``code`` is the source of the run's plugins.

        Raises :class:`SetupError` for a change that a replay cannot make, and the errors of
        profile, course, plugins and log.
        """
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
        origin = f"profile of {journal.parts[0].path}"
        files = plugin_files(header, journal.attachment, code, journal.parts[0].path)
        self.was: Loaded = parse(text, origin, plugin_files=files)
        self.loaded: Loaded = parse(text, origin, list(overrides), files) if overrides else self.was
        self.course: Course = from_json(journal.attachment("course.json"))
        self.fence: Fence | None = None
        if self.loaded.profile.fence:
            if not journal.has_attachment(FENCE_NAME):
                raise LogError(
                    f"{journal.parts[0].path}: the profile names a fence, and the log does not "
                    "hold it"
                )
            self.fence = read_geojson(journal.attachment(FENCE_NAME), FENCE_NAME, self.course.datum)
        self.grid = grid_in(journal) if self.loaded.profile.localisation is not None else None
        self.wiring: Wiring = wire(self.loaded.profile, header.link)
        _refuse_other_tasks(journal, self.wiring)

    def machine(self, stopwatch: Stopwatch, sink: Sink) -> Machine:
        """Build the machine, not yet started."""
        machine = build(
            self.loaded.profile,
            self.course,
            self.wiring,
            stopwatch,
            sink,
            fence=self.fence,
            grid=self.grid,
            setup_fault=self.header.setup_fault,
            virtual=self.header.clock == "lockstep" and not self.header.board,
        )
        for port in machine.ports:
            device = machine.device(port)
            if isinstance(device, TakesSecret) and device.secret_ref is not None:
                device.set_secret(SECRET)
        return machine


def grid_in(journal: Journal) -> OccupancyGrid:
    """Return the map that a log holds. Raises :class:`LogError` and MapError."""
    for number, row in enumerate(journal.header.files):
        if row.key == MAP_KEY and row.attached:
            files = {name: journal.attachment(file_attachment(number, name)) for name in row.hashes}
            return map_of(files, next(iter(row.hashes)))
    raise LogError(
        f"{journal.parts[0].path}: the profile names a map, and the log does not hold it"
    )


def _refuse_other_tasks(journal: Journal, wiring: Wiring) -> None:
    """Raise :class:`LogError` if the log has another task table than the machine here: its ticks
    would mean other tasks."""
    header = journal.header
    then = [(row.name, row.rate_hz, row.phase_ns) for row in header.tasks]
    now = [(name, wiring.rates[name].rate_hz, wiring.rates[name].phase_ns) for name in PIPELINE]
    if then != now:
        raise LogError(
            f"{journal.parts[0].path}: the log has the tasks {_table(then) or 'none'}; this "
            f"version runs {_table(now)} with its profile: replay it with the version that wrote "
            f"it (vehicled {header.vehicled_version or 'of an unknown version'})"
        )


def _table(rows: Sequence[tuple[str, float, int]]) -> str:
    phases = [f" after {phase_ns / 1e6:g} ms" if phase_ns else "" for _, _, phase_ns in rows]
    return ", ".join(
        f"{name} {rate_hz:g} Hz{phase}"
        for (name, rate_hz, _), phase in zip(rows, phases, strict=True)
    )


def plugin_files(
    header: RunHeader, attachment: Callable[[str], bytes], code: Code, log: str
) -> Callable[[str], str]:
    """Return a function from a plugin as the log's profile names it to its file. ``attachment``
    gives the texts of the log.

    The function raises :class:`SetupError` if the code should be the same and the file has another
    text now.
    """
    rows = header.plugins

    def find(name: str) -> str:
        same = [k for k, row in enumerate(rows) if label(row.reference) == label(name)]
        if not same:
            return name  # only the simulator uses it
        number = next((k for k in same if rows[k].reference == name), same[0])
        row = rows[number]
        if code == "log":
            if not row.text_file:
                raise SetupError(
                    f"--code log: {name} is an installed module, which the log holds in part; "
                    "install its version"
                )
            folder = Path(tempfile.mkdtemp(prefix="vehicled_plugin_"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            for file in row.hashes:
                place = safe_member(folder, file, log)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(attachment(plugin_attachment(number, file)))
            return renamed(name, folder / Path(row.text_file).name)
        if code == "same":
            _refuse_other_code(row)
        return row.reference

    return find


def _refuse_other_code(row: PluginRow) -> None:
    """Raise :class:`SetupError` if a file of the plugin is not what it was in the run."""
    for file, digest in row.hashes.items():
        path = Path(file)
        try:
            if row.text_file:
                path = Path(row.text_file).parent / file
            else:
                module = find_spec(row.reference.rpartition(":")[0])
                path = (
                    Path(module.origin)
                    if module is not None and module.origin is not None
                    else path
                )
            same = hashlib.sha256(path.read_bytes()).hexdigest() == digest
            how = "has been changed since"
        except (OSError, ImportError):
            same, how = False, "is not on this computer"
        if not same:
            raise SetupError(
                f"the run used the {row.kind} {row.reference}, and {path} {how}; restore it, or "
                "run the text in the log, if you trust that log: --code log; or see what the "
                "changed file would have computed: --code changed"
            )


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
        f"{name}: the log was written with {then}, here is {now}"
        for name, (then, now) in here.items()
        if then and then != now
    ]
    digest, depends_on = numeric_fingerprint()
    if header.fingerprint and header.fingerprint != digest:
        changed = [
            f"{k} {header.fingerprint_of.get(k, '?')} -> {v}"
            for k, v in depends_on.items()
            if header.fingerprint_of.get(k) != v
        ]
        why = f" ({'; '.join(changed)})" if changed else ""
        found.append(
            f"numbers: fingerprint {header.fingerprint} in the log, {digest} here: the last "
            f"bits may differ{why}"
        )
    if header.profile_digest and header.profile_digest != parts.was.digest:
        found.append(
            "profile: its text in the log is not what the header's digest says; secrets are "
            "masked there"
        )
    shipped = _shipped(header.profile)
    if shipped is not None:
        changed = _changes(parts.was, shipped)
        if changed:
            more = f" and {len(changed) - SHOWN_KEYS} more" if len(changed) > SHOWN_KEYS else ""
            keys = ", ".join(changed[:SHOWN_KEYS])
            found.append(
                f"profile: the log's own is used; the present profile {header.profile} has "
                f"other values: {keys}{more}"
            )
    return found


def _shipped(name: str) -> Loaded | None:
    try:
        return load(name) if name in names() else None
    except ProfileError:
        return None


def _changes(then: Loaded, now: Loaded) -> list[str]:
    """Return the dotted keys whose values differ, defaults included."""
    values = [{each.path: each.value for each in shown(loaded)} for loaded in (then, now)]
    paths = dict.fromkeys([*values[0], *values[1]])
    return sorted(dotted(path) for path in paths if values[0].get(path) != values[1].get(path))
