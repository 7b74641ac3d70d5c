"""Plugins: classes and functions of the user's, named in a profile or command as ``FILE.py:NAME`` or ``package.module:NAME``, and
trained networks as controllers, named as ``FILE.onnx``.

A plugin is checked when it is loaded: its base class, its methods and their arguments, its parameters. Its returned messages are
checked at every call, because their values go into commands and logs. Errors name the file and the line. The text of its file, and
of the modules beside the file that it imports, is kept for the log.
"""

import ast
import hashlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import is_dataclass
from functools import cache, wraps
from importlib import import_module
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from vehicled import messages
from vehicled.messages import Fault, Message, Reaction

MAX_BYTES = 1024 * 1024
"""Largest source file that is loaded."""
NETWORK = ".onnx"
"""Ending of the file of a trained network."""
NETWORK_CLASS = "policy"
"""Name that a network has instead of a class: its table in the profile."""
OURS = ("vehicled", "drivers", "sim_backend")
"""Packages whose version is in the header of the log, so that their text need not be kept."""

guard: Callable[[str], AbstractContextManager[object]] = nullcontext
"""Surrounds the import of a plugin; the command line sets one that ends an import that takes for ever."""


class PluginError(Exception):
    """A plugin cannot be used. The text names the file, the line and the cure."""


class PluginFaultError(Exception):
    """A method of a plugin returned something wrong. The text names the file, the line of the method and the value."""


class PluginStuckError(Exception):
    """A call of a plugin has not returned in time."""


class Contract(Struct, frozen=True):
    """Requirements on the plugins of one kind."""

    base: str
    """Base class or protocol, as ``module:name``; empty for a function."""
    arguments: tuple[str, ...]
    """Positional arguments of its call."""
    inherits: bool = False
    """True if the class must inherit from the base, which has defaults that the daemon calls."""
    steps: tuple[str, ...] = ()
    """Methods whose returned messages are checked."""
    returns: str = ""
    """Message that a step returns. Empty: any messages, and exceptions become faults, because no task surrounds these methods."""
    finite: tuple[str, ...] = ()
    """Fields of the returned message that are never NaN or infinite."""
    laws: dict[str, tuple[str, ...]] = {}
    """Methods that a base class calls, if it has them, with the fields of their result that are never NaN or infinite."""
    optional: bool = False
    """True if a step may return None."""


CONTRACTS: dict[str, Contract] = {
    "controller": Contract(
        "vehicled.control.interface:Controller",
        ("params", "vehicle", "limits", "course", "period_s"),
        inherits=True, steps=("step",), returns="ControlCommand", finite=("wheel_angle_rad", "throttle", "brake"),
        laws={"steer": ("wheel_rad",)},
    ),
    "estimator": Contract(
        "vehicled.estimation.interface:Estimator", ("params", "vehicle", "datum", "lever_arm_m"),
        steps=("step",), returns="StateEstimate",
    ),
    "identifier": Contract(
        "vehicled.estimation.interface:Identifier", ("params", "vehicle"), steps=("step",), returns="Identification", optional=True
    ),
    "driver": Contract(
        "vehicled.ports:Device", ("params", "messages", "command_lifetime_ns"),
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
    """Source texts by path relative to the plugin's folder: its own file first, then the modules beside it that it imports."""

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
    """Return the key of the parameter table of an implementation: the name, of a plugin the name behind the colon."""
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


def load(kind: str, reference: str, contract: Contract, taken: Mapping[str, str], *, fresh: bool = False) -> Plugin:
    """Return a plugin. ``taken``: registered names, which its class must not have. ``fresh``: look for a change of its files.

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
        raise PluginError(f'{reference}: "{attribute}" is the name of a built-in {kind}; give it another one')
    found = getattr(module, attribute, None)
    if found is None:
        own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise PluginError(f'{place} has no "{attribute}"; it defines {", ".join(own) or "no class and no function"}')
    plugin = Plugin(kind, reference, _checked(found, f"{label(place)}:{attribute}", kind, contract), sources)
    _loaded[kind, reference] = plugin
    return plugin


def _network(kind: str, reference: str, known: Plugin | None) -> Plugin:
    """Return the controller of a network. Raises :class:`PluginError`."""
    if kind != "controller":
        raise PluginError(f"{reference}: a network is a controller, not a {kind}")
    try:
        if known is not None and known.files == {Path(reference).name: Path(reference).read_bytes()}:
            return known
    except OSError:
        pass  # reading it below says what is wrong
    module = import_module("vehicled.control.policy.controller")
    try:
        made = module.policy_class(Path(reference))
    except module.PolicyError as error:
        raise PluginError(str(error)) from None
    plugin = _loaded[kind, reference] = Plugin(kind, reference, made, {Path(reference).name: made.network.data})
    return plugin


def loaded(kind: str, name: str) -> Plugin | None:
    """Return the plugin of that name if it has been loaded."""
    return _loaded.get((kind, name))


def files() -> frozenset[str]:
    """Return the paths of the loaded plugins' files, and of those beside them that they import."""
    return frozenset(str(path) for sources, _ in _modules.values() for path in sources)


def place_of(error: BaseException) -> str:
    """Return the innermost line of a plugin that an exception passed through, as ``file:line in function``; empty if none."""
    own = files()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in own:
            return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
    return ""


def describe(error: BaseException) -> str:
    """Return an exception as text, with the line of the plugin that raised it."""
    if isinstance(error, PluginFaultError):
        return str(error)
    place = place_of(error)
    return f"{type(error).__name__}: {error}{f' ({place})' if place else ''}"


# ------------------------------------------------------------------ import


def _from_file(path: Path) -> tuple[ModuleType, dict[str, bytes]]:
    known = _modules.get(str(path))
    if known is None or any(_read(each) != text for each, text in known[0].items() if each == path or each.exists()):
        for each in (known or ({}, None))[0]:
            for name in [n for n, m in sys.modules.items() if getattr(m, "__file__", None) == str(each)]:
                del sys.modules[name]
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
        # At the end: a module beside the plugin must not stand in for one of the daemon or of Python.
        sys.path.append(folder)
    sys.modules[name] = module
    _modules[str(path)] = ({path: text}, module)
    try:
        with guard(path.name):
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own code is what is asked for
    except BaseException as error:
        del sys.modules[name], _modules[str(path)]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise PluginError(_import_failure(path, error)) from error
    sources = {path: text}
    _add_imports(text, path.parent, sources)
    return sources, module


def _add_imports(text: bytes, folder: Path, sources: dict[Path, bytes]) -> None:
    """Add the source texts of the modules beside a plugin that its text imports, and of those that they import."""
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
            if path not in sources and path.is_relative_to(folder) and "site-packages" not in path.relative_to(folder).parts:
                sources[path] = _read(path)
                _add_imports(sources[path], folder, sources)


def _import_failure(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    place = f"{path}:{frames[-1].lineno}" if frames else str(path)
    cure = "; install it in the environment of vehicled" if isinstance(error, ModuleNotFoundError) else ""
    return f"{place}: {type(error).__name__}: {error}{cure}"


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise PluginError(
                f"{path}: no such file; a path in a profile is relative to the profile, one in a command to this folder"
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
        raise PluginError(f'"{name}" is neither a .py file nor a module: write ./my_file.py:Name or package.module:Name')
    try:
        with guard(name):
            module = import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            raise PluginError(f'no module "{error.name}" is installed; write a file with its ending: ./{error.name}.py') from error
        file = traceback.extract_tb(error.__traceback__)[-1]
        raise PluginError(f"{file.filename}:{file.lineno}: {type(error).__name__}: {error}") from error
    file_name = getattr(module, "__file__", None)
    if file_name is None or name.partition(".")[0] in OURS:
        return module, {}
    return module, {Path(file_name).name: _read(Path(file_name))}


# ------------------------------------------------------------------ checks


def _checked(found: Any, name: str, kind: str, contract: Contract) -> Any:
    """Return the implementation, its returned values checked. Raises :class:`PluginError` if it breaks the contract."""
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
        raise PluginError(f"{name} must inherit from {attribute} of {module}: class {found.__name__}({attribute})")
    if lacking := sorted(getattr(found, "__abstractmethods__", ())) or [
        # An attribute may be made by the constructor.
        n
        for n, parameters in _methods(base).items()
        if parameters and not hasattr(found, n)
    ]:
        raise PluginError(f"{name} lacks {', '.join(lacking)}; a {kind} must define what {contract.base} declares")
    _check_arguments(found, contract.arguments, f"{name} is made with", name)
    for method, parameters in _methods(base).items():
        own = inspect.getattr_static(found, method, None)
        if inspect.isfunction(own) and own is not getattr(base, method, None):
            _check_arguments(own, parameters, f"{name}.{method} is called with", name)
    params = getattr(found, "Params", None)
    params = NoParams if params is None else params
    if not (isinstance(params, type) and (issubclass(params, Struct) or is_dataclass(params))):
        raise PluginError(f"{name}.Params must be a frozen msgspec Struct or dataclass")
    frozen = params.__struct_config__.frozen if issubclass(params, Struct) else params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    if not frozen:
        raise PluginError(f"{name}.Params must be frozen: class {params.__name__}(Struct, frozen=True), or @dataclass(frozen=True)")
    try:
        msgspec.inspect.type_info(params)
    except (TypeError, NameError) as error:
        raise PluginError(f"{name}.Params: {error}") from error
    return _checking(found, params, name, contract)


def _methods(base: type) -> dict[str, tuple[str, ...]]:
    """Return the public methods and properties of a base class with the positional parameters of each."""
    found: dict[str, tuple[str, ...]] = {}
    for cls in reversed(base.__mro__[:-1]):
        for name, value in vars(cls).items():
            if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                found[name] = tuple(inspect.signature(value).parameters) if inspect.isfunction(value) else ()
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


def _checking(cls: type, params: type, name: str, contract: Contract) -> type:
    """Return a subclass that checks what the methods return, and names the plugin in what its construction raises."""

    def construct(self: Any, *arguments: Any) -> None:
        try:
            cls.__init__(self, *arguments)  # type: ignore[misc]
        except Exception as error:
            raise PluginError(f"{name} cannot be made: {describe(error)}") from error

    members: dict[str, Any] = {"__init__": construct, "Params": params, "__module__": cls.__module__, "__doc__": cls.__doc__}
    for method in contract.steps:
        wrap = _returning if contract.returns else _reporting
        members[method] = wrap(getattr(cls, method), _line_of(getattr(cls, method), name), contract)
    for method, fields in contract.laws.items():
        if law := getattr(cls, method, None):
            members[method] = _finite(law, _line_of(law, name), fields)
    return type(cls.__name__, (cls,), members)


def _returning(method: Callable[..., Any], name: str, contract: Contract) -> Callable[..., Any]:
    """Check that a step returns the message it should."""
    wanted = getattr(messages, contract.returns)

    @wraps(method)
    def checked(self: Any, *arguments: Any) -> Any:
        if (why := vars(self).get("_stuck")) is not None:
            # Each further call would hold the loop as long.
            raise PluginFaultError(why)
        try:
            made = method(self, *arguments)
        except PluginStuckError as error:
            self._stuck = f"{name} is not called again, because it did not return: {describe(error)}"
            raise
        if made is None and contract.optional:
            return None
        if not isinstance(made, wanted):
            raise PluginFaultError(f"{name} returned {made!r:.60}; it must return a {contract.returns}")
        made = plain(made, name)
        _refuse_infinite(made, contract.finite, name)
        return made

    return checked


def _finite(law: Callable[..., Any], name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    @wraps(law)
    def checked(self: Any, *arguments: Any) -> Any:
        made = law(self, *arguments)
        _refuse_infinite(made, fields, name)
        return made

    return checked


def _refuse_infinite(made: Any, fields: tuple[str, ...], name: str) -> None:
    for field in fields:
        value = getattr(made, field)
        if not isfinite(value):
            raise PluginFaultError(f"{name} returned {field} = {value}")


def _line_of(method: Any, name: str) -> str:
    """Return the place of a method for errors, as ``file:line Class.method``."""
    file, _, cls = name.rpartition(":")
    code = getattr(inspect.unwrap(method), "__code__", None)
    return f"{file}:{code.co_firstlineno} {cls}.{method.__name__}" if code is not None else f"{name}.{method.__name__}"


def _reporting(method: Callable[..., Any], name: str, contract: Contract) -> Callable[..., Any]:
    """Turn exceptions into a fault of the device, which ends with the next call that succeeds."""

    @wraps(method)
    def reported(self: Any, *arguments: Any) -> Any:
        now_ns = next((each for each in reversed(arguments) if type(each) is int), 0)
        try:
            made = method(self, *arguments)
            found = [] if made is None else [plain(message, name) for message in made]
        except Exception as error:  # noqa: BLE001 - no task surrounds the methods of a driver
            self._failed = name
            return [Fault(now_ns, "driver_failed", name, Reaction.CONTROLLED_STOP, True, f"the driver raised {describe(error)}")]
        if vars(self).get("_failed") == name:
            self._failed = ""
            found.append(Fault(now_ns, "driver_failed", name, Reaction.NONE, False, "the driver works again"))
        return found

    return reported


def plain(message: Any, name: str) -> Message:
    """Return a message with plain Python numbers in the place of numpy's. Raises :class:`PluginFaultError`, naming the field."""
    if not isinstance(message, Message):
        raise PluginFaultError(f"{name} returned {message!r:.60}, which is no message")
    types, values = _types(type(message)), []
    for field, value in msgspec.structs.asdict(message).items():
        try:
            values.append(msgspec.convert(msgspec.to_builtins(value, enc_hook=_number), types[field]))
        except (msgspec.ValidationError, TypeError) as error:
            raise PluginFaultError(f"{name} returned {field} = {value!r:.60} in its {type(message).__name__}: {error}") from None
    return type(message)(*values)


@cache
def _types(message: type[Message]) -> dict[str, Any]:
    return get_type_hints(message, include_extras=True)


def _number(value: object) -> Any:
    if type(value).__module__ == "numpy":
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"a message holds no {type(value).__name__}")
