"""Calls of a plugin's methods: whatever they raise or return becomes a fault of that plugin, and
nothing else passes through.

The step of a controller, an estimator or an identifier raises :class:`PluginFaultError`, and its
task brakes. A failure of any other call of theirs, such as a property that the command gate reads,
makes the next step raise: so it has the same reaction and never holds up the gate. No task
surrounds the methods of a driver, so its failures become messages of it.

:func:`contained` makes the class whose methods are called: each is one of the plugin's behind
``_step``, ``_driver_step``, ``_other_call`` or ``_law``.
"""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from itertools import islice
from math import isfinite, isnan
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from vehicled.core import messages
from vehicled.core.error_text import message as said
from vehicled.core.error_text import shown, type_name
from vehicled.core.messages import Fault, Message, Reaction
from vehicled.core.ports import NEVER_NS, Reopen, Send, SetBaud
from vehicled.profile.plugins.faults import (
    PluginError,
    PluginFaultError,
    PluginStuckError,
    describe,
    is_interrupt,
)

RESULT_LIMIT = 10_000
"""Most messages or port actions of one call; a generator without end would otherwise never
return."""
DRIVER_PERIOD_NS = 1_000_000
"""Shortest time between two calls of a driver's ``on_time``."""

Call = Callable[..., Any]


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
    """Message that a step returns. Empty: any messages, and exceptions become faults, because no
    task surrounds these methods."""
    finite: tuple[str, ...] = ()
    """Fields of the returned message that are never NaN or infinite."""
    laws: dict[str, tuple[str, ...]] = {}
    """Methods that a base class calls, if it has them, with the fields of their result that are
    never infinite; none is ever NaN."""
    optional: bool = False
    """True if a step may return None."""


class _State:
    """State of one plugin, apart from its own attributes."""

    __slots__ = ("asked_ns", "failed", "stuck", "unreported")

    def __init__(self) -> None:
        self.stuck = ""
        """Why it is not called again, because each further call would hold the loop as long."""
        self.unreported: PluginFaultError | None = None
        """Failure of a call that returned a default, for the next step to raise."""
        self.failed = ""
        """Method of a driver whose failure has been reported and not yet taken back."""
        self.asked_ns = -NEVER_NS
        """Last call of ``on_time``."""


def _state(plugin: Any) -> _State:
    own: dict[str, Any] = object.__getattribute__(plugin, "__dict__")
    found = own.get("_vehicled")
    if type(found) is not _State:
        found = own["_vehicled"] = _State()
    return found


def contained(
    cls: Any, params: type, name: str, contract: Contract, methods: dict[str, tuple[str, ...]]
) -> type:
    """Return a subclass whose calls cannot fail in another way than the daemon expects.

    ``methods``: public methods and properties of the base, with the arguments of each; none for a
    property.
    """

    def made(make: Call) -> Call:
        def construct(*arguments: Any) -> Any:
            try:
                return make(*arguments)
            except BaseException as error:
                if is_interrupt(error):
                    raise
                raise PluginError(f"{name} cannot be made: {describe(error)}") from error

        return construct

    members: dict[str, Any] = {
        "__init__": made(cls.__init__), "Params": params, "__module__": cls.__module__,
        "__doc__": cls.__doc__,
    }  # fmt: skip
    if cls.__new__ is not object.__new__:
        members["__new__"] = made(cls.__new__)
    steps = bool(contract.returns)
    for method in methods:
        found = inspect.getattr_static(cls, method, None)
        where = _line_of(found.fget if isinstance(found, property) else found, method, name)
        check, default = _RESULTS.get(method, _anything), _DEFAULTS.get(method)
        if method in contract.steps:
            members[method] = (_step if steps else _driver_step)(_method(found), where, contract)
        elif contract.steps and isinstance(found, property):
            members[method] = property(
                _other_call(_method(found), where, check, default), found.fset, found.fdel
            )
        elif contract.steps and callable(getattr(cls, method, None)):
            members[method] = _other_call(_method(found), where, check, default)
    for method, fields in contract.laws.items():
        if law := getattr(cls, method, None):
            members[method] = _law(law, _line_of(law, method, name), fields)
    if "next_due_ns" in members:
        members["next_due_ns"] = _due(members["next_due_ns"])
    if "refusal" in members:
        members["refusal"] = property(_refusing(members["refusal"].fget))
    return type(cls.__name__, (cls,), members)


def _method(found: Any) -> Call:
    """Return a function of the plugin and the arguments, for a class attribute of any kind."""
    if inspect.isfunction(found):
        return found
    if isinstance(found, property):
        return lambda self: found.__get__(self)

    @wraps(found)
    def call(self: Any, *arguments: Any) -> Any:
        bound = found.__get__(self, type(self)) if hasattr(found, "__get__") else found
        return bound(*arguments)

    return call


# ------------------------------------------------------------------ steps


def _step(method: Call, name: str, contract: Contract) -> Call:
    """Check that a step returns the message it should."""
    wanted = getattr(messages, contract.returns)

    @wraps(method)
    def step(self: Any, *arguments: Any) -> Any:
        state = _state(self)
        if state.stuck:
            raise PluginFaultError(state.stuck)
        if state.unreported is not None:
            failure, state.unreported = state.unreported, None
            raise failure
        try:
            made = method(self, *arguments)
            if made is None and contract.optional:
                return None
            if not issubclass(type(made), wanted):
                raise PluginFaultError(
                    f"{name} returned {shown(made)}; it must return a {contract.returns}"
                )
            made = plain(made, name)
            _refuse_infinite(made, contract.finite, name)
            return made
        except PluginStuckError as error:
            state.stuck = (
                f"{name} is not called again, because it did not return: {describe(error)}"
            )
            raise PluginFaultError(describe(error)) from error
        except BaseException as error:
            if type(error) is PluginFaultError or is_interrupt(error):
                raise
            raise PluginFaultError(describe(error)) from error

    return step


def _law(law: Call, name: str, fields: tuple[str, ...]) -> Call:
    @wraps(law)
    def call(self: Any, *arguments: Any) -> Any:
        made = law(self, *arguments)
        _refuse_infinite(made, fields, name)
        for field in getattr(made, "__struct_fields__", ()):
            value = getattr(made, field)
            if isinstance(value, float) and isnan(value):
                raise PluginFaultError(f"{name} returned {field} = {shown(value)}")
        return made

    return call


def _refuse_infinite(made: Any, fields: tuple[str, ...], name: str) -> None:
    for field in fields:
        value = getattr(made, field, None)
        try:
            finite = isfinite(value)  # type: ignore[arg-type]  # of a law the type is checked here
        except TypeError:
            finite = False
        if not finite:
            raise PluginFaultError(f"{name} returned {field} = {shown(value)}")


# ------------------------------------------------------------------ other calls


def _other_call(method: Call, name: str, check: Call, default: Any) -> Call:
    """Return a default for a call that fails, and have the failure raised or reported by the next
    step."""

    @wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        state = _state(self)
        if state.stuck:
            return default
        try:
            return check(method(self, *arguments))
        except PluginStuckError as error:
            state.stuck = (
                f"{name} is not called again, because it did not return: {describe(error)}"
            )
        except BaseException as error:
            if is_interrupt(error):
                raise
            state.unreported = PluginFaultError(
                f"{name} {error}" if type(error) is _WrongResultError else describe(error)
            )
        return default

    return call


class _WrongResultError(Exception):
    """A call returned something else than it should."""


def _anything(value: Any) -> Any:
    return value


def _is_bool(value: Any) -> bool:
    if type(value) is bool or type_name(value) in ("bool_", "bool"):
        return bool(value)
    raise _WrongResultError(f"returned {shown(value)}; it must return True or False")


def _is_text(value: Any) -> str:
    if type(value) is str:
        return value
    raise _WrongResultError(f"returned {shown(value)}; it must return a text")


def _is_time(value: Any) -> int:
    if type(value) is int or type_name(value) in ("int64", "int32"):
        return int(value)
    raise _WrongResultError(f"returned {shown(value)}; it must return a time in whole ns")


def _is_offset(value: Any) -> Any:
    from vehicled.paths.lateral_offset import LateralOffset, LateralSpline

    if value is None or type(value) in (LateralOffset, LateralSpline):
        return value
    raise _WrongResultError(
        f"returned {shown(value)}; it must return a LateralOffset, a LateralSpline or None"
    )


def _are_actions(values: Any) -> list[Any]:
    found = list(islice(values, RESULT_LIMIT + 1))
    if len(found) > RESULT_LIMIT:
        raise _WrongResultError(f"returned more than {RESULT_LIMIT} port actions")
    for action in found:
        if type(action) is Send:
            sound = type(action.data) is bytes and type(action.deadline_ns) is int
            sound = sound and (action.redacted is None or type(action.redacted) is bytes)
        else:
            sound = (type(action) is SetBaud and type(action.baud) is int) or type(action) is Reopen
        if not sound:
            raise _WrongResultError(
                f"returned {shown(action)}; it must return Send, SetBaud and Reopen actions"
            )
    return found


_RESULTS: dict[str, Call] = {
    "finished": _is_bool, "lateral_offset": _is_offset, "refusal": _is_text,
    "next_due_ns": _is_time, "take_tx": _are_actions, "consumes": tuple,
}  # fmt: skip
"""Checks of what the calls beside the steps return."""
_DEFAULTS: dict[str, Any] = {
    "finished": False,
    "refusal": "",
    "next_due_ns": NEVER_NS,
    "take_tx": (),
    "consumes": (),
}
"""Results of calls that fail, where None is none."""


# ------------------------------------------------------------------ drivers


def _driver_step(method: Call, name: str, contract: Contract) -> Call:
    """Turn exceptions into a fault of the device, which ends with the next call that succeeds."""
    periodic = name.endswith(".on_time")

    @wraps(method)
    def step(self: Any, *arguments: Any) -> Any:
        state = _state(self)
        now_ns = next((each for each in reversed(arguments) if type(each) is int), 0)
        if periodic:
            state.asked_ns = now_ns
        found: list[Message] = []
        if state.unreported is not None:
            reason, state.unreported = str(state.unreported), None
            found.append(_fault(now_ns, name, reason))
        try:
            made = () if state.stuck else method(self, *arguments)
            found += [
                plain(message, name)
                for message in islice(() if made is None else made, RESULT_LIMIT + 1)
            ]
            if len(found) > RESULT_LIMIT:
                raise PluginFaultError(f"{name} returned more than {RESULT_LIMIT} messages")
        except BaseException as error:
            if is_interrupt(error):
                raise
            if isinstance(error, PluginStuckError):
                state.stuck = (
                    f"the driver is not called again, because it did not return: {describe(error)}"
                )
            state.failed = name
            return [_fault(now_ns, name, f"the driver raised {describe(error)}")]
        if state.failed == name and not state.stuck:
            state.failed = ""
            found.append(
                Fault(now_ns, "driver_failed", name, Reaction.NONE, False, "the driver works again")
            )
        return found

    return step


def _fault(now_ns: int, name: str, reason: str) -> Fault:
    return Fault(now_ns, "driver_failed", name, Reaction.CONTROLLED_STOP, True, reason)


def _due(method: Call) -> Call:
    """Ask for a call at once if a failure waits to be reported, and else not more often than the
    driver can need."""

    @wraps(method)
    def due(self: Any) -> Any:
        made, state = method(self), _state(self)
        return 0 if state.unreported is not None else max(made, state.asked_ns + DRIVER_PERIOD_NS)

    return due


def _refusing(method: Call) -> Call:
    """Refuse a throttle while the driver fails: its vehicle could not be stopped."""

    @wraps(method)
    def refusing(self: Any) -> str:
        state = _state(self)
        return str(state.unreported or state.stuck or method(self))

    return refusing


# ------------------------------------------------------------------ messages


def plain(message: Any, name: str) -> Message:
    """Return a message with plain Python numbers in the place of numpy's. Raises
    :class:`PluginFaultError`, naming the field."""
    kind = next((each for each in type(message).__mro__ if each in _TYPES), None)
    if kind is None:
        raise PluginFaultError(f"{name} returned {shown(message)}, which is no message")
    types, values = _types(kind), []
    for field in kind.__struct_fields__:
        value = getattr(message, field)
        try:
            values.append(
                msgspec.convert(msgspec.to_builtins(value, enc_hook=_number), types[field])
            )
        except (
            msgspec.ValidationError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:
            raise PluginFaultError(
                f"{name} returned {field} = {shown(value)} in its {type_name(message)}: "
                f"{said(error)}"
            ) from None
    return kind(*values)


_TYPES = frozenset(messages.ALL)


@cache
def _types(message: type[Message]) -> dict[str, Any]:
    return get_type_hints(message, include_extras=True)


def _number(value: object) -> Any:
    if type(value).__module__ == "numpy":
        return value.tolist()  # type: ignore[attr-defined]
    raise TypeError(f"a message holds no {type_name(value)}")


def _line_of(method: Any, attribute: str, name: str) -> str:
    """Return the place of a method for errors, as ``file:line Class.method``."""
    file, _, cls = name.rpartition(":")
    code = getattr(inspect.unwrap(method) if callable(method) else None, "__code__", None)
    return (
        f"{file}:{code.co_firstlineno} {cls}.{attribute}"
        if code is not None
        else f"{name}.{attribute}"
    )
