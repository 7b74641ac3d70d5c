"""Loads and validates a profile by name or file, and keeps its source text."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from vehicled.profile import layers, plausibility, plugins, profile_files, sim_defaults, toml_text
from vehicled.profile.collect import MAX_PROBLEMS, Collector
from vehicled.profile.contradictions import RULES
from vehicled.profile.problems import (
    KeyPath,
    Note,
    Problem,
    ProfileError,
    by_line,
    dotted,
    printable,
)
from vehicled.profile.profile_files import names as names
from vehicled.profile.schema import Profile

if TYPE_CHECKING:
    from vehicled.log.reader import LogReader

STEERING_OF_TWIN = (
    "offset_rad",
    "max_wheel_rad",
    "rate_radps",
    "delay_s",
    "dead_zone",
    "slack_rad",
)
"""Keys that ``[sim.steering]`` and the steering of a twin file share."""


class Loaded(Struct, frozen=True):
    """A profile with its origin. ``source`` alone gives the same profile again (:func:`parse`),
    which is what a log keeps."""

    profile: Profile
    source: str
    """The file's text as it is; with a base or overrides, the text with them applied, which has no
    comments."""
    digest: str
    """SHA-256 of ``source`` in UTF-8, hex: the same as ``sha256sum`` of a file without a base when
    nothing was overridden."""
    path: str
    """File it was read from; empty for text."""
    findings: tuple[Note, ...] = ()
    """Implausible numbers, errors first; empty for text, which is a profile that was driven."""
    origins: layers.Origins | None = None
    """Places of the values in the files."""
    derived: dict[KeyPath, KeyPath] = field(default_factory=dict)
    """Values of ``[sim]`` that the profile leaves out, by key path, with that of the value that
    they equal."""

    def place(self, key: str) -> str:
        """Return the line of a dotted key, or of its table; with the name of the file where that is
        a base."""
        return self.origins.of(tuple(key.split("."))) if self.origins is not None else ""

    @property
    def errors(self) -> list[Problem]:
        """Findings that forbid to drive with this profile."""
        return [note for note in self.findings if note.level == "error"]


class ProfileSummary(Struct, frozen=True):
    """A line of ``vehicled profiles``. ``problem`` is empty when the file can be used."""

    name: str
    description: str
    path: str
    problem: str = ""


def load_profile(name_or_file: str, overrides: Sequence[str] = ()) -> Profile:
    """Return the profile of that name, or of a file if it has a slash or ends in ``.toml``.
    Overrides are "dotted.key=value".

    A name is looked for in ``~/.config/vehicled/profiles``, then among the shipped ones. Raises
    ProfileError with every mistake.
    """
    return load(name_or_file, overrides).profile


def load(name_or_file: str, overrides: Sequence[str] = ()) -> Loaded:
    """Load a profile like :func:`load_profile`, with the source text and its digest."""
    path = profile_files.find(name_or_file)
    return _build(profile_files.read(path), str(path), overrides)


def parse(
    text: str,
    origin: str = "profile",
    overrides: Sequence[str] = (),
    plugin_files: Callable[[str], str] | None = None,
    beside: Path | None = None,
) -> Loaded:
    """Return a profile from text, as stored in a log. ``origin`` names the text in errors.

    ``plugin_files`` returns the reference, with the whole path, of a plugin that the text names.
    ``beside`` is the folder of the text, from which its base counts; without one a base is refused,
    because the profile of a log is whole.
    """
    return _build(text, origin, overrides, path="", plugin_files=plugin_files, beside=beside)


def profile_in(log: "LogReader") -> Profile:
    """Return the profile that a log contains. Raises :class:`ProfileError` and LogError."""
    return parse(
        log.attachment("profile.toml").decode(errors="replace"), f"{log.path}, profile.toml"
    ).profile


def describe() -> list[ProfileSummary]:
    """Return every profile with its description, or with its problem if it is invalid."""
    summaries = []
    for name, path in sorted(profile_files.files().items()):
        try:
            profile = load(str(path)).profile
            summaries.append(ProfileSummary(name, profile.description, str(path)))
        except ProfileError as error:
            count = len(error.problems)
            summaries.append(
                ProfileSummary(
                    name,
                    "",
                    str(path),
                    f"{count} problem{'s' if count != 1 else ''}, see: vehicled check {name}",
                )
            )
    return summaries


def _build(
    text: str,
    origin: str,
    overrides: Sequence[str],
    path: str | None = None,
    plugin_files: Callable[[str], str] | None = None,
    beside: Path | None = None,
) -> Loaded:
    folder = Path(origin).parent if path is None else beside or Path()
    layered = layers.resolve(
        text,
        printable(origin, 300),
        Path(origin) if path is None else None,
        folder,
        plugin_files,
        allowed=path is None or beside is not None,
    )
    origin, data = printable(origin, 300), layered.data
    parsed = [toml_text.parse_override(override) for override in overrides]
    good = [
        structs.replace(override, value=plugins.absolute(override.value, Path()))
        for override in parsed
        if isinstance(override, toml_text.Override)
    ]
    problems = [problem for problem in parsed if isinstance(problem, Problem)]
    problems += toml_text.apply(data, good)
    _move_steering_to_twin(data)
    bases = [layer.name for layer in layered.layers[1:]]
    changed = f" on {', '.join(bases)}" * bool(
        bases
    ) + f" with {', '.join(f'--set {o.text}' for o in good)}" * bool(good)
    source = f"# {Path(origin).name}{changed}\n{toml_text.write(data)}" if changed else text
    origins = layers.Origins(layered, good)
    derived = sim_defaults.complete(data)
    profile, mistakes, findings = _examine(data, origins.of, derived)
    if mistakes:
        reported = {problem.path for problem in mistakes}
        mistakes += [
            note for note in findings if note.level == "error" and note.path not in reported
        ]
        problems += sorted(mistakes, key=by_line)
    if problems:
        if len(problems) >= MAX_PROBLEMS:
            problems.append(Problem("", "... and more; this is hardly a profile"))
        raise ProfileError(problems, origin)
    digest = hashlib.sha256(source.encode()).hexdigest()
    # A profile in a log has been driven and must stay readable, even with implausible numbers.
    kept = tuple(findings) if path is None else ()
    if path is None and not any(override.path == ("course",) for override in good):
        profile = structs.replace(profile, course=layers.beside(profile.course, folder))
    # From here on all rests on the wheelbase that the vehicle turns with.
    profile = structs.replace(profile, vehicle=profile.vehicle.single_track)
    return Loaded(profile, source, digest, origin if path is None else path, kept, origins, derived)


def _move_steering_to_twin(data: dict[str, Any]) -> None:
    """Take the keys of ``[sim.steering]`` beside a twin file as changes of the twin, so that one
    override fits every plant.

    Its gain is a straight line in the place of the twin's map. Other keys stay where they are, and
    are refused there.
    """
    sim = data.get("sim")
    if not isinstance(sim, dict) or sim.get("plant") != "double_track":
        return
    twin, steering = sim.get("twin"), sim.get("steering")
    if not (
        isinstance(twin, dict)
        and isinstance(steering, dict)
        and isinstance(twin.get("changes", {}), dict)
    ):
        return
    changes = twin.setdefault("changes", {})
    gain_rad = steering.get("gain_rad")
    if isinstance(gain_rad, int | float) and gain_rad > 0.0:
        changes |= {
            "steering.map_command": [-1.0, 1.0],
            "steering.map_angle_rad": [-gain_rad, gain_rad],
        }
        del steering["gain_rad"]
    changes |= {f"steering.{key}": steering.pop(key) for key in STEERING_OF_TWIN if key in steering}
    if not steering:
        del sim["steering"]


def values(name_or_file: str) -> dict[str, Any]:
    """Return the plain values that a profile and its bases state. Raises ProfileError."""
    path = profile_files.find(name_or_file)
    return layers.resolve(
        profile_files.read(path), printable(str(path), 300), path, path.parent, None
    ).data


def findings_of(data: dict[str, Any]) -> list[Note]:
    """Return the mistakes and the implausible numbers of plain values; mistakes count as errors."""
    _, mistakes, findings = _examine(data, lambda key: "", sim_defaults.complete(data))
    return [
        *(Note(problem.path, problem.message, problem.place, "error") for problem in mistakes),
        *findings,
    ]


def _examine(
    data: dict[str, Any], place: Callable[[Any], str], derived: Mapping[KeyPath, KeyPath]
) -> tuple[Any, list[Problem], list[Note]]:
    """Build the profile: the struct, or a placeholder and the mistakes; and what is implausible
    about its numbers.

    A mistake in a derived value is reported once, at its source.
    """
    collector = Collector(place, RULES, derived)
    profile = collector.build(Profile, data)
    verdicts = plausibility.judge(collector.view(data), collector.wrong)
    stated = {problem.path for problem in collector.problems}
    copies = {dotted(path) for path, source in derived.items() if dotted(source) in stated}
    findings = [
        Note(dotted(key), message, place(key), level)
        for key, level, message in verdicts
        if key not in derived
    ]
    return (
        profile,
        [problem for problem in collector.problems if problem.path not in copies],
        findings,
    )
