"""Plugins: classes and functions of the user's, named in a profile or command as ``FILE.py:NAME``
or ``package.module:NAME``, and trained networks as controllers, named as ``FILE.onnx``.

A plugin is checked when it is loaded: its base class, its methods and their arguments, its
parameters. Its returned messages are checked at every call, because their values go into commands
and logs (:mod:`vehicled.profile.plugins.calls`). Errors name the file and the line. The text of its
file, and of the modules beside the file that it imports, is kept for the log.

Its code is trusted not to end the process by a signal or a crash of a C library, not to change the
daemon's own modules and not to take over its files and signals: that would need a process of its
own.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from vehicled.core.error_text import error_text, innermost, one_line
from vehicled.profile.plugins.calls import Contract, contained, plain
from vehicled.profile.plugins.faults import (
    PluginError,
    PluginFaultError,
    PluginStuckError,
    describe,
    files,
    is_interrupt,
    note_files,
    place_of,
)

MAX_BYTES = 1024 * 1024
"""Largest source file that is loaded."""
NETWORK = ".onnx"
"""Ending of the file of a trained network."""
NETWORK_CLASS = "policy"
"""Name that a network has instead of a class: its table in the profile."""
OURS = ("vehicled", "drivers", "sim_backend")
"""Packages whose version is in the header of the log, so that their text need not be kept."""

guard: Callable[[str], AbstractContextManager[object]] = nullcontext
"""Surrounds the import of a plugin; the command line sets one that ends an import that takes for
ever."""

__all__ = [
    "CONTRACTS", "Contract", "Plugin", "PluginError", "PluginFaultError", "PluginStuckError",
    "absolute", "describe", "files", "is_interrupt", "is_network", "is_reference", "label", "load",
    "loaded", "place_of", "plain", "renamed", "source_file", "table_name",
]  # fmt: skip

CONTRACTS: dict[str, Contract] = {
    "controller": Contract(
        "vehicled.control.interface:Controller",
        ("params", "vehicle", "limits", "course", "period_s"),
        inherits=True, steps=("step",), returns="ControlCommand",
        finite=("wheel_angle_rad", "throttle", "brake"), laws={"steer": ("wheel_rad",)},
    ),
    "estimator": Contract(
        "vehicled.estimation.interface:Estimator", ("params", "vehicle", "datum", "lever_arm_m"),
        steps=("step",), returns="StateEstimate",
    ),
    "identifier": Contract(
        "vehicled.estimation.interface:Identifier", ("params", "vehicle"), steps=("step",),
        returns="Identification", optional=True
    ),
    "driver": Contract(
        "vehicled.core.ports:Device", ("params", "messages", "command_lifetime_ns"),
        inherits=True, steps=("on_rx", "on_time", "on_port"),
    ),
    "decoder": Contract("", ("data",)),
    "CAN decoder": Contract("", ("frames",)),
    "metric": Contract("", ("drive",)),
}  # fmt: skip
"""Requirements on the plugins of the daemon."""


class NoParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a plugin that declares none."""


class Plugin(Struct, frozen=True):
    """A loaded plugin."""

    kind: str
    reference: str
    """File with its whole path, or module; then a colon and the name. A network has no name."""
    implementation: Any
    files: dict[str, bytes]
    """Source texts by path relative to the plugin's folder: its own file first, then the modules
    beside it that it imports."""

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of every source text."""
        return {name: hashlib.sha256(text).hexdigest() for name, text in self.files.items()}


_loaded: dict[tuple[str, str], Plugin] = {}
_modules: dict[str, tuple[dict[Path, bytes], ModuleType]] = {}
"""Modules of files by path, with all source texts that they were made of."""


def is_reference(name: object) -> bool:
    """Return True if the name is a plugin's, not a registered one."""
    return isinstance(name, str) and (":" in name or name.endswith(NETWORK))


def is_network(name: str) -> bool:
    """Return True if the name is the file of a trained network."""
    return name.endswith(NETWORK)


def source_file(reference: str) -> str:
    """Return the file of a plugin; empty for one in a module."""
    place = reference if is_network(reference) else reference.rpartition(":")[0]
    return place if place.endswith((".py", NETWORK)) else ""


def table_name(name: str) -> str:
    """Return the key of the parameter table of an implementation: the name, of a plugin the name
    behind the colon."""
    return NETWORK_CLASS if is_network(name) else name.rpartition(":")[2]


def renamed(reference: str, file: Path) -> str:
    """Return the reference with another file."""
    return str(file) if is_network(reference) else f"{file}:{table_name(reference)}"


def label(name: str) -> str:
    """Return a name as it is shown: that of a plugin without its folder."""
    return name.rpartition("/")[2]


def absolute(name: Any, folder: Path) -> Any:
    """Return the reference with the whole path of its file; anything else as it is."""
    if not is_reference(name):
        return name
    file = source_file(name)
    return renamed(name, (folder / Path(file).expanduser()).resolve()) if file else name


def load(
    kind: str, reference: str, contract: Contract, taken: Mapping[str, str], *, fresh: bool = False
) -> Plugin:
    """Return a plugin. ``taken``: registered names, which its class must not have. ``fresh``: look
    for a change of its files.

    Raises :class:`PluginError`.
    """
    known = _loaded.get((kind, reference))
    if known is not None and not fresh:
        return known
    if is_network(reference):
        return _network(kind, reference, known)
    place, _, attribute = reference.rpartition(":")
    module, sources = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    if known is not None and known.files == sources:
        return known
    if attribute in taken:
        raise PluginError(
            f'{reference}: "{attribute}" is the name of a built-in {kind}; give it another one'
        )
    try:
        implementation = _found(module, place, attribute, kind, contract)
    except BaseException as error:
        # To look at a class runs its code: its metaclass, its properties, __getattr__ of its
        # module.
        if isinstance(error, PluginError) or is_interrupt(error):
            raise
        raise PluginError(f"{label(reference)} cannot be used: {describe(error)}") from error
    plugin = _loaded[kind, reference] = Plugin(kind, reference, implementation, sources)
    return plugin


def _found(module: ModuleType, place: str, attribute: str, kind: str, contract: Contract) -> Any:
    found = getattr(module, attribute, None)
    if found is None:
        own = [
            n
            for n, v in vars(module).items()
            if callable(v) and getattr(v, "__module__", "") == module.__name__
        ]
        raise PluginError(
            f'{place} has no "{attribute}"; it defines '
            f"{', '.join(own) or 'no class and no function'}"
        )
    return _implementation(found, f"{label(place)}:{attribute}", kind, contract)


def _network(kind: str, reference: str, known: Plugin | None) -> Plugin:
    """Return the controller of a network. Raises :class:`PluginError`."""
    if kind != "controller":
        raise PluginError(f"{reference}: a network is a controller, not a {kind}")
    try:
        if known is not None and known.files == {
            Path(reference).name: Path(reference).read_bytes()
        }:
            return known
    except OSError:
        pass  # reading it below says what is wrong
    module = import_module("vehicled.control.policy.controller")
    try:
        made = module.policy_class(Path(reference))
    except module.PolicyError as error:
        raise PluginError(str(error)) from None
    plugin = _loaded[kind, reference] = Plugin(
        kind, reference, made, {Path(reference).name: made.network.data}
    )
    return plugin


def loaded(kind: str, name: str) -> Plugin | None:
    """Return the plugin of that name if it has been loaded."""
    return _loaded.get((kind, name))


# ------------------------------------------------------------------ import


def _from_file(path: Path) -> tuple[ModuleType, dict[str, bytes]]:
    known = _modules.get(str(path))
    if known is None or any(
        _read(each) != text for each, text in known[0].items() if each == path or each.exists()
    ):
        for each in (known or ({}, None))[0]:
            for name in [
                n for n, m in list(sys.modules.items()) if getattr(m, "__file__", None) == str(each)
            ]:
                sys.modules.pop(name, None)
        known = _modules[str(path)] = _execute(path)
    sources, module = known
    return module, {str(each.relative_to(path.parent)): text for each, text in sources.items()}


def _execute(path: Path) -> tuple[dict[Path, bytes], ModuleType]:
    text = _read(path)
    name = f"vehicled_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path)
    folder = str(path.parent)
    if folder not in sys.path:
        # At the end: a module beside the plugin must not stand in for one of the daemon or of
        # Python.
        sys.path.append(folder)
    sys.modules[name] = module
    note_files([path])
    try:
        with guard(path.name):
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own code is what is asked for
        sources = {path: text}
        _add_imports(text, path.parent, sources)
    except BaseException as error:
        sys.modules.pop(name, None)
        if isinstance(error, PluginError) or is_interrupt(error):
            raise
        raise PluginError(_import_failure(path, error)) from error
    note_files(sources)
    return sources, module


def _add_imports(text: bytes, folder: Path, sources: dict[Path, bytes]) -> None:
    """Add the source texts of the modules beside a plugin that its text imports, and of those that
    they import."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is None or not file.endswith(".py") or name.partition(".")[0] in OURS:
                continue
            path = Path(file)
            if (
                path not in sources
                and path.is_relative_to(folder)
                and "site-packages" not in path.relative_to(folder).parts
            ):
                sources[path] = _read(path)
                _add_imports(sources[path], folder, sources)


def _import_failure(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}: {one_line(str(error.msg))}"
    trace = innermost(error, frozenset([str(path)]))
    place = f"{path}:{trace.tb_lineno}" if trace is not None else str(path)
    cure = (
        "; install it in the environment of vehicled"
        if isinstance(error, ModuleNotFoundError)
        else ""
    )
    return f"{place}: {error_text(error)}{cure}"


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise PluginError(
                f"{path}: no such file; a path in a profile is relative to the profile, one in "
                "a command to this folder"
            )
        data = path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise PluginError(f"{path}: larger than {MAX_BYTES // 1024} KiB; this is not a plugin")
    return data


@cache
def _from_package(name: str) -> tuple[ModuleType, dict[str, bytes]]:
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(
            f'"{name}" is neither a .py file nor a module: write ./my_file.py:Name or '
            "package.module:Name"
        )
    ours = name.partition(".")[0] in OURS
    try:
        with guard(name):
            spec = find_spec(name)
            if spec is not None and spec.origin is not None and not ours:
                note_files([spec.origin])
            module = import_module(name)
        file_name = getattr(module, "__file__", None)
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            raise PluginError(
                f'no module "{error.name}" is installed; write a file with its ending: '
                f"./{error.name}.py"
            ) from error
        if is_interrupt(error):
            raise
        raise PluginError(f"{name}: {error_text(error)}{_last_line(error)}") from error
    if file_name is None or ours:
        return module, {}
    return module, {Path(file_name).name: _read(Path(file_name))}


def _last_line(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


# ------------------------------------------------------------------ checks


def _implementation(found: Any, name: str, kind: str, contract: Contract) -> Any:
    """Return the implementation, its returned values checked. Raises :class:`PluginError` if it
    breaks the contract."""
    if not contract.base:
        if not callable(found):
            raise PluginError(f"{name} is not a function")
        _check_arguments(found, contract.arguments, f"{name} is called with", name)
        return found
    module, _, attribute = contract.base.partition(":")
    base = getattr(import_module(module), attribute)
    if not isinstance(found, type):
        raise PluginError(f"{name} is a {type(found).__name__}; a {kind} is a class")
    if contract.inherits and not issubclass(found, base):
        raise PluginError(
            f"{name} must inherit from {attribute} of {module}: class {found.__name__}({attribute})"
        )
    if lacking := sorted(getattr(found, "__abstractmethods__", ())) or [
        # An attribute may be made by the constructor.
        n
        for n, parameters in _methods(base).items()
        if parameters and not hasattr(found, n)
    ]:
        raise PluginError(
            f"{name} lacks {', '.join(lacking)}; a {kind} must define what {contract.base} declares"
        )
    _check_arguments(found, contract.arguments, f"{name} is made with", name)
    for method, parameters in _methods(base).items():
        own = inspect.getattr_static(found, method, None)
        if inspect.isfunction(own) and own is not getattr(base, method, None):
            _check_arguments(own, parameters, f"{name}.{method} is called with", name)
    params = getattr(found, "Params", None)
    params = NoParams if params is None else params
    if not (isinstance(params, type) and (issubclass(params, Struct) or is_dataclass(params))):
        raise PluginError(f"{name}.Params must be a frozen msgspec Struct or dataclass")
    frozen = (
        params.__struct_config__.frozen
        if issubclass(params, Struct)
        else params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    )
    if not frozen:
        raise PluginError(
            f"{name}.Params must be frozen: class {params.__name__}(Struct, frozen=True), or "
            "@dataclass(frozen=True)"
        )
    try:
        msgspec.inspect.type_info(params)
    except (TypeError, NameError) as error:
        raise PluginError(f"{name}.Params: {error}") from error
    return contained(found, params, name, contract, _methods(base))


def _methods(base: type) -> dict[str, tuple[str, ...]]:
    """Return the public methods and properties of a base class with the positional parameters of
    each."""
    found: dict[str, tuple[str, ...]] = {}
    for cls in reversed(base.__mro__[:-1]):
        for name, value in vars(cls).items():
            if not name.startswith("_") and (
                inspect.isfunction(value) or isinstance(value, property)
            ):
                found[name] = (
                    tuple(inspect.signature(value).parameters) if inspect.isfunction(value) else ()
                )
    return found


def _check_arguments(call: Any, arguments: tuple[str, ...], text: str, name: str) -> None:
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        shown = ", ".join(argument for argument in arguments if argument != "self")
        raise PluginError(f"{text} ({shown}), but {error}") from None
