"""Loads and validates a profile by name or file, and keeps its source text."""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from vehicled.core import shipped
from vehicled.paths import scenes
from vehicled.profile import plausibility, plugins, toml_text
from vehicled.profile.collect import MAX_PROBLEMS, Collector
from vehicled.profile.contradictions import RULES
from vehicled.profile.problems import Note, Problem, ProfileError, by_line, choices, dotted, nearest, printable
from vehicled.profile.schema import Profile

if TYPE_CHECKING:
    from vehicled.log.reader import LogReader

STEERING_OF_TWIN = ("offset_rad", "max_wheel_rad", "rate_radps", "delay_s", "dead_zone", "slack_rad")
"""Keys that ``[sim.steering]`` and the steering of a twin file share."""
MAX_BYTES = 256 * 1024
"""A profile is a page or two of text; something larger is another file."""


class Loaded(Struct, frozen=True):
    """A profile with its origin. ``source`` alone gives the same profile again (:func:`parse`), which is what a log keeps."""

    profile: Profile
    source: str
    """The file's text as it is; with overrides, the text with them applied, which has no comments."""
    digest: str
    """SHA-256 of ``source`` in UTF-8, hex: the same as ``sha256sum`` of the file when nothing was overridden."""
    path: str
    """File it was read from; empty for text."""
    findings: tuple[Note, ...] = ()
    """Implausible numbers, errors first; empty for text, which is a profile that was driven."""

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
    """Return the profile of that name, or of a file if it has a slash or ends in ``.toml``. Overrides are "dotted.key=value".

    A name is looked for in ``~/.config/vehicled/profiles``, then among the shipped ones. Raises ProfileError with every mistake.
    """
    return load(name_or_file, overrides).profile


def load(name_or_file: str, overrides: Sequence[str] = ()) -> Loaded:
    """Load a profile like :func:`load_profile`, with the source text and its digest."""
    path = find(name_or_file)
    return _build(read(path), str(path), overrides)


def parse(
    text: str, origin: str = "profile", overrides: Sequence[str] = (), plugin_files: Callable[[str], str] | None = None
) -> Loaded:
    """Return a profile from text, as stored in a log. ``origin`` names the text in errors.

    ``plugin_files`` returns the reference, with the whole path, of a plugin that the text names.
    """
    return _build(text, origin, overrides, path="", plugin_files=plugin_files)


def profile_in(log: "LogReader") -> Profile:
    """Return the profile that a log contains. Raises :class:`ProfileError` and LogError."""
    return parse(log.attachment("profile.toml").decode(errors="replace"), f"{log.path}, profile.toml").profile


def folders() -> tuple[Path, ...]:
    """Return the folders that are searched for names, the user's own first."""
    shipped_folder = shipped.folder("profiles")
    try:
        return (Path.home() / ".config" / "vehicled" / "profiles", shipped_folder)
    except RuntimeError:  # an account without a home, as a service may have
        return (shipped_folder,)


def names() -> list[str]:
    """Return the names that :func:`load_profile` knows, sorted."""
    return sorted(_files())


def describe() -> list[ProfileSummary]:
    """Return every profile with its description, or with its problem if it is invalid."""
    summaries = []
    for name, path in sorted(_files().items()):
        try:
            profile = load(str(path)).profile
            summaries.append(ProfileSummary(name, profile.description, str(path)))
        except ProfileError as error:
            count = len(error.problems)
            summaries.append(
                ProfileSummary(name, "", str(path), f"{count} problem{'s' if count != 1 else ''}, see: vehicled check {name}")
            )
    return summaries


def find(name_or_file: str) -> Path:
    """Return the file of a profile. Raises ProfileError for an unknown name, with the nearest one."""
    if "\0" in name_or_file or not name_or_file.strip():
        raise ProfileError([Problem("", "a profile needs a name or a file")])
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        try:
            return Path(name_or_file).expanduser()
        except RuntimeError as error:
            raise ProfileError([Problem("", str(error))], printable(name_or_file)) from None
    files = _files()
    if name_or_file in files:
        return files[name_or_file]
    close = nearest(name_or_file, files, cutoff=0.5)
    hint = f'did you mean "{close}"? There' if close else "there"
    message = f"no profile of that name; {hint} are {choices(sorted(files)) or 'none'}. A file is given with its path: ./my.toml"
    raise ProfileError([Problem("", message)], f'profile "{printable(name_or_file)}"')


def _files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in reversed(folders()):
        try:
            files |= {path.stem: path for path in folder.glob("*.toml")}
        except OSError:  # an unreadable folder of the user must not hide the shipped profiles
            continue
    return files


def read(path: Path) -> str:
    """Return the text of a file. Raises ProfileError if it is unreadable, too large or no text."""

    def refuse(message: str) -> ProfileError:
        return ProfileError([Problem("", message)], printable(str(path), 300))

    try:
        # Check the type first: opening a pipe without a writer would block for ever.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise refuse("is a folder; name the .toml file inside it")
        if not stat.S_ISREG(mode):
            raise refuse("is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = nearest(path.name, _siblings(path))
        raise refuse(f"no such file{f'; did you mean {near}?' if near else ''}") from None
    except PermissionError:
        raise refuse(f"may not be read by this user; try: chmod a+r {printable(path.name)}") from None
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise refuse(f"is larger than {MAX_BYTES // 1024} KiB; this is not a profile")
    try:
        return data.decode("utf-8-sig")  # some editors begin the file with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        kind = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "not UTF-8"
        raise refuse(f"is {kind} text (line {line}); save it as UTF-8") from None


def _siblings(path: Path) -> list[str]:
    try:
        return os.listdir(path.parent)
    except OSError:
        return []


def _build(
    text: str, origin: str, overrides: Sequence[str], path: str | None = None, plugin_files: Callable[[str], str] | None = None
) -> Loaded:
    folder = Path(origin).parent if path is None else Path()
    origin = printable(origin, 300)
    data = toml_text.parse(text, origin)
    _rename_old_keys(data)
    # A file of a plugin is relative to the profile that names it; one in an override, to the present folder.
    replace_plugins(data, plugin_files or (lambda name: plugins.absolute(name, folder)))
    parsed = [toml_text.parse_override(override) for override in overrides]
    good = [
        structs.replace(override, value=plugins.absolute(override.value, Path()))
        for override in parsed
        if isinstance(override, toml_text.Override)
    ]
    problems = [problem for problem in parsed if isinstance(problem, Problem)]
    problems += toml_text.apply(data, good)
    _move_steering_to_twin(data)
    places: toml_text.Places | None = None

    def place(key: Any) -> str:
        nonlocal places
        places = places or toml_text.Places(text, good)
        return places.of(key)

    profile, mistakes, findings = _examine(data, place)
    if mistakes:
        reported = {problem.path for problem in mistakes}
        mistakes += [note for note in findings if note.level == "error" and note.path not in reported]
        problems += sorted(mistakes, key=by_line)
    if problems:
        if len(problems) >= MAX_PROBLEMS:
            problems.append(Problem("", "... and more; this is hardly a profile"))
        raise ProfileError(problems, origin)
    source = f"# {Path(origin).name} with {', '.join(f'--set {o.text}' for o in good)}\n{toml_text.write(data)}" if good else text
    digest = hashlib.sha256(source.encode()).hexdigest()
    # A profile in a log has been driven and must stay readable, even with implausible numbers.
    kept = tuple(findings) if path is None else ()
    if path is None and not any(override.path == ("course",) for override in good):
        profile = structs.replace(profile, course=_beside(profile.course, folder))
    return Loaded(profile, source, digest, origin if path is None else path, kept)


def _beside(course: str, folder: Path) -> str:
    """Return a course with the whole path of its file, if that is relative to the profile; else as it is."""
    file, colon, parameters = course.partition(":")
    if scenes.is_course(course):
        return course if scenes.is_shipped(course) else str(folder / Path(course).expanduser())
    try:
        place = folder / Path(file).expanduser()
        found = Path(file).suffix != "" and place.is_file()
    except (OSError, ValueError, RuntimeError):
        return course
    return f"{place}{colon}{parameters}" if found else course


def _rename_old_keys(data: dict[str, Any]) -> None:
    """Accept the former name of a key, which profiles of the user's and recorded logs still have."""
    estimator = data.get("estimator")
    for table in estimator.values() if isinstance(estimator, dict) else ():
        if isinstance(table, dict) and "gate_patience" in table and "max_rejections" not in table:
            table["max_rejections"] = table.pop("gate_patience")


def _move_steering_to_twin(data: dict[str, Any]) -> None:
    """Take the keys of ``[sim.steering]`` beside a twin file as changes of the twin, so that one override fits every plant.

    Its gain is a straight line in the place of the twin's map. Other keys stay where they are, and are refused there.
    """
    sim = data.get("sim")
    if not isinstance(sim, dict) or sim.get("plant") != "double_track":
        return
    twin, steering = sim.get("twin"), sim.get("steering")
    if not (isinstance(twin, dict) and isinstance(steering, dict) and isinstance(twin.get("changes", {}), dict)):
        return
    changes = twin.setdefault("changes", {})
    gain_rad = steering.get("gain_rad")
    if isinstance(gain_rad, int | float) and gain_rad > 0.0:
        changes |= {"steering.map_command": [-1.0, 1.0], "steering.map_angle_rad": [-gain_rad, gain_rad]}
        del steering["gain_rad"]
    changes |= {f"steering.{key}": steering.pop(key) for key in STEERING_OF_TWIN if key in steering}
    if not steering:
        del sim["steering"]


def replace_plugins(data: dict[str, Any], find_file: Callable[[str], str]) -> None:
    """Give every plugin that parsed data names the reference that ``find_file`` returns, such as one with its whole path."""

    def table(value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) else {}

    holders = [(data, key) for key in ("estimator", "identifier", "controller")]
    holders += [(table(device), key) for device in table(data.get("devices")).values() for key in ("driver", "emulator")]
    holders.append((table(data.get("sim")), "plant"))
    for holder, key in holders:
        if isinstance(holder.get(key), dict):
            holder, key = holder[key], "name"
        if plugins.is_reference(holder.get(key)):
            holder[key] = find_file(holder[key])


def findings_of(data: dict[str, Any]) -> list[Note]:
    """Return the mistakes and the implausible numbers of a parsed file; mistakes count as errors."""
    _, mistakes, findings = _examine(data, lambda key: "")
    return [*(Note(problem.path, problem.message, problem.place, "error") for problem in mistakes), *findings]


def _examine(data: dict[str, Any], place: Callable[[Any], str]) -> tuple[Any, list[Problem], list[Note]]:
    """Build the profile: the struct, or a placeholder and the mistakes; and what is implausible about its numbers."""
    collector = Collector(place, RULES)
    profile = collector.build(Profile, data)
    verdicts = plausibility.judge(collector.view(data), collector.wrong)
    return profile, collector.problems, [Note(dotted(key), message, place(key), level) for key, level, message in verdicts]
