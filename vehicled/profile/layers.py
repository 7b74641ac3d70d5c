"""A profile and its bases: ``base`` names the profile whose values hold wherever this one states
none.

Tables merge, everything else replaces, and ``without`` leaves keys of the base out.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from msgspec import Struct

from vehicled.paths import scenes
from vehicled.profile import plugins, profile_files, toml_text
from vehicled.profile.problems import KeyPath, Problem, ProfileError, found, nearest, printable

FILE_KEYS = (
    "course",
    "fence",
    "localisation.map",
    "sim.scene",
    "sim.twin.vehicle",
    "sim.terrain.height",
    "sim.terrain.friction",
    "sim.gnss.replayed.file",
    "sim.gnss.zones_file",
)
"""Keys whose relative paths count from the profile that states them."""
MOST_BASES = 8


class ProfileLayer(Struct, frozen=True):
    """One file of a profile and its bases."""

    name: str
    """Name of the file, for messages."""
    text: str
    data: dict[str, Any]
    """Its own values; plugins with their whole paths."""
    folder: Path


class Layered(Struct, frozen=True):
    """A profile with its bases, merged."""

    data: dict[str, Any]
    """Values of the whole profile, without ``base`` and ``without``."""
    layers: tuple[ProfileLayer, ...]
    """The profile itself, then its base, and so on."""
    origins: dict[KeyPath, int]
    """ProfileLayer of each value, by its key path; the path of a table stands for all below it."""


def resolve(
    text: str,
    origin: str,
    path: Path | None,
    folder: Path,
    plugin_files: Callable[[str], str] | None,
    *,
    allowed: bool = True,
) -> Layered:
    """Return the text of a profile merged with its bases. Raises ProfileError.

    ``path`` is the file of the text, if it has one; relative names count from ``folder``.
    ``allowed``: it may have a base.
    """
    layers = [_layer(text, origin, Path(origin).name, folder, plugin_files)]
    if "base" in layers[0].data and not allowed:
        message = "a profile that is kept in a log or another file has all its values, and no base"
        raise ProfileError([Problem("base", message, _place(text, "base"))], origin)
    seen = [] if path is None else [path]
    while (wanted := layers[-1].data.get("base")) is not None:
        below = _base_file(wanted, layers[-1], seen)
        seen.append(below)
        layers.append(
            _layer(
                profile_files.read(below),
                printable(str(below), 300),
                below.name,
                below.parent,
                None,
            )
        )
    data: dict[str, Any] = {}
    origins: dict[KeyPath, int] = {}
    for number in reversed(range(len(layers))):
        layer = layers[number]
        if number + 1 < len(layers):
            _leave_out(
                data, origins, layer, layers[number + 1].name, origin if number == 0 else layer.name
            )
        own = deepcopy(
            {key: value for key, value in layer.data.items() if key not in ("base", "without")}
        )
        if number and layer.folder != folder:
            _anchor(own, layer.folder)
        _merge(data, own, origins, number, ())
    if len(layers) > 1 and "name" not in layers[0].data:
        raise ProfileError(
            [Problem("name", "missing; a profile with a base has a name of its own")], origin
        )
    return Layered(data, tuple(layers), origins)


def _layer(
    text: str, origin: str, name: str, folder: Path, plugin_files: Callable[[str], str] | None
) -> ProfileLayer:
    data = toml_text.parse(text, origin)
    _rename_old_keys(data)
    # A file of a plugin is relative to the profile that names it.
    replace_plugins(data, plugin_files or (lambda reference: plugins.absolute(reference, folder)))
    if "without" in data and "base" not in data:
        raise ProfileError(
            [
                Problem(
                    "without",
                    "leaves out keys of a base, and no base is named",
                    _place(text, "without"),
                )
            ],
            origin,
        )
    return ProfileLayer(printable(name, 100), text, data, folder)


def _place(text: str, key: str) -> str:
    return toml_text.Places(text, ()).of((key,))


def _base_file(wanted: Any, layer: ProfileLayer, seen: Sequence[Path]) -> Path:
    """Return the file of a base. Raises ProfileError with the place of the key ``base``."""

    def refuse(message: str) -> ProfileError:
        return ProfileError([Problem("base", message, _place(layer.text, "base"))], layer.name)

    if not isinstance(wanted, str) or not wanted.strip():
        raise refuse(
            'must be the name of a profile, such as "f1tenth", or a file, such as '
            f'"./common.toml", found {found(wanted)}'
        )
    resolved = [path.resolve() for path in seen]
    try:
        path = profile_files.find(wanted, resolved)
    except ProfileError as error:
        if wanted in profile_files.files():
            raise refuse(
                f'"{printable(wanted)}" is this profile itself, or rests on it: name another base'
            ) from None
        raise refuse(f'"{printable(wanted)}": {error.problems[0].message}') from None
    if not path.is_absolute():
        path = layer.folder / path
    if path.resolve() in resolved:
        raise refuse(
            f'"{printable(wanted)}" is this profile itself, or rests on it: name another base'
        )
    if len(seen) > MOST_BASES:
        raise refuse(
            f"more than {MOST_BASES} profiles rest on each other: name one that states more"
        )
    try:
        profile_files.read(path)
    except ProfileError as error:
        raise refuse(f'"{printable(wanted)}": {error.origin} {error.problems[0].message}') from None
    return path


def _leave_out(
    data: dict[str, Any], origins: dict[KeyPath, int], layer: ProfileLayer, base: str, origin: str
) -> None:
    """Remove the keys of ``without`` from the values of a base. Raises ProfileError for one that it
    does not have."""
    listed = layer.data.get("without", [])
    place = _place(layer.text, "without")
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        text = (
            'must be a list of keys of the base, such as ["devices.heading"], found '
            f"{found(listed)}"
        )
        raise ProfileError([Problem("without", text, place)], origin)
    problems = []
    for each in listed:
        *tables, last = each.split(".")
        here: Any = data
        for depth, part in enumerate([*tables, last]):
            if not isinstance(here, dict) or part not in here:
                near = nearest(part, here) if isinstance(here, dict) else None
                above = ".".join(tables[:depth])
                hint = f'; did you mean "{f"{above}." if above else ""}{near}"?' if near else ""
                problems.append(
                    Problem(
                        "without", f'"{printable(each)}" is not in the base {base}{hint}', place
                    )
                )
                break
            here, holder = here[part], here
        else:
            del holder[last]
            _forget(origins, (*tables, last))
    if problems:
        raise ProfileError(problems, origin)


def _forget(origins: dict[KeyPath, int], path: KeyPath) -> None:
    for each in [each for each in origins if each[: len(path)] == path]:
        del origins[each]


def _merge(
    into: dict[str, Any],
    own: dict[str, Any],
    origins: dict[KeyPath, int],
    number: int,
    path: KeyPath,
) -> None:
    for key, value in own.items():
        here, below = (*path, key), into.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            _merge(below, value, origins, number, here)
            continue
        _forget(origins, here)
        into[key] = value
        _mark(value, origins, number, here)


def _mark(value: Any, origins: dict[KeyPath, int], number: int, path: KeyPath) -> None:
    if isinstance(value, dict) and value:
        for key, inside in value.items():
            _mark(inside, origins, number, (*path, key))
    else:
        origins[path] = number


def _anchor(data: dict[str, Any], folder: Path) -> None:
    """Give the files that a base names beside itself their whole paths."""
    for key in FILE_KEYS:
        *tables, last = key.split(".")
        here: Any = data
        for table in tables:
            here = here.get(table) if isinstance(here, dict) else None
        if isinstance(here, dict) and isinstance(here.get(last), str):
            here[last] = (
                _scene_beside(here[last], folder)
                if key == "sim.scene"
                else beside(here[last], folder)
            )


def _scene_beside(name: str, folder: Path) -> str:
    if not name or scenes.is_shipped(name):
        return name
    size = scenes.size_of(name)
    return f"{beside(name.removesuffix(size), folder)}{size}"


def beside(name: str, folder: Path) -> str:
    """Return a course or another file with its whole path, if it is in the folder; else as it
    is."""
    file, colon, parameters = name.partition(":")
    if scenes.is_course(name):
        return name if scenes.is_shipped(name) else str(folder / Path(name).expanduser())
    try:
        place = folder / Path(file).expanduser()
        there = Path(file).suffix != "" and place.is_file()
    except (OSError, ValueError, RuntimeError):
        return name
    return f"{place}{colon}{parameters}" if there else name


class Origins:
    """Places of the values of a profile: a line of the file, of a base, or an override."""

    def __init__(self, layered: Layered, overrides: Sequence[toml_text.Override]) -> None:
        self._layered = layered
        self._overrides = overrides
        self._places: list[toml_text.Places] = []

    def of(self, path: KeyPath) -> str:
        """Return the place of a key as text, of the nearest enclosing table if it is not stated;
        empty if unknown."""
        layers = self._layered.layers
        if not self._places:
            self._places = [
                toml_text.Places(layer.text, self._overrides if k == 0 else ())
                for k, layer in enumerate(layers)
            ]
        if (said := self._places[0].of(path)).startswith("--set"):
            return said
        number = self.layer(path)
        if number is None:
            # A key that is missing: it was left out, or belongs to the file that has the most of
            # its tables.
            key = ".".join(map(str, path))
            if (
                left_out := next(
                    (k for k, layer in enumerate(layers) if key in layer.data.get("without", ())),
                    None,
                )
            ) is not None:
                number, path = left_out, ("without",)
                said = self._places[0].of(path)
        if number is None:
            depths = [self._depth(k, path) for k in range(len(layers))]
            number = depths.index(max(depths))
        if number == 0:
            return said
        line = self._places[number].line(path)
        return f"{layers[number].name}, line {line}" if line else ""

    def layer(self, path: KeyPath) -> int | None:
        """Return the number of the file that states a value; None if none does."""
        for depth in range(len(path), 0, -1):
            number = self._layered.origins.get(path[:depth])
            if number is not None:
                # An empty table states nothing of what belongs into it.
                empty = (
                    depth < len(path)
                    and self._depth(number, path) == depth
                    and self._at(number, path[:depth]) == {}
                )
                return None if empty else number
        return None

    def file(self, number: int) -> str:
        """Return the name of a file by its number."""
        return self._layered.layers[number].name

    def _at(self, number: int, path: KeyPath) -> Any:
        here: Any = self._layered.layers[number].data
        for part in path:
            here = here[part]
        return here

    def _depth(self, number: int, path: KeyPath) -> int:
        here: Any = self._layered.layers[number].data
        for depth, part in enumerate(path):
            if not isinstance(here, dict) or part not in here:
                return depth
            here = here[part]
        return len(path)


def _rename_old_keys(data: dict[str, Any]) -> None:
    """Accept the former name of a key, which profiles of the user's and recorded logs still
    have."""
    estimator = data.get("estimator")
    for table in estimator.values() if isinstance(estimator, dict) else ():
        if isinstance(table, dict) and "gate_patience" in table and "max_rejections" not in table:
            table["max_rejections"] = table.pop("gate_patience")


def replace_plugins(data: dict[str, Any], find_file: Callable[[str], str]) -> None:
    """Give every plugin that parsed data names the reference that ``find_file`` returns, such as
    one with its whole path."""

    def table(value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) else {}

    holders = [(data, key) for key in ("estimator", "identifier", "controller")]
    holders += [
        (table(device), key)
        for device in table(data.get("devices")).values()
        for key in ("driver", "emulator")
    ]
    holders.append((table(data.get("sim")), "plant"))
    for holder, key in holders:
        if isinstance(holder.get(key), dict):
            holder, key = holder[key], "name"
        if plugins.is_reference(holder.get(key)):
            holder[key] = find_file(holder[key])
