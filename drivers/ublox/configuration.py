"""Configuration of a receiver: find its line rate, write the settings, wait for acknowledgements,
read them back.

A pure state machine beside the driver. It never resets the receiver and writes to RAM only, so a
power cycle undoes all changes and flash does not wear.

    IDLE -> SEARCH (line rate, reply) [-> SWITCH (to the wanted rate) -> SEARCH] -> APPLY -> DONE
                 \\__________ no reply: WAIT, doubling ___________/

An acknowledgement has no number, only the kind of its request. So one request is pending at a time,
and a setting counts only once it reads back. A rejection does not name the item, so the group is
halved until the item is found.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import chain

from msgspec import Struct

from drivers.ublox.codec import encode, poll
from drivers.ublox.identity import ReceiverIdentity
from drivers.ublox.keys import CfgValget, CfgValgetPoll, CfgValset, Items, key_name
from drivers.ublox.layouts import Ack, Nak
from drivers.ublox.settings import DISPENSABLE, Group, Params, baud_item, groups_of
from vehicled.core.ports import NEVER_NS, Action, Send, SetBaud

ANSWER_NS = 1_000_000_000
"""Timeout of one reply."""
ATTEMPTS = 3
LISTEN_NS = 1_200_000_000
"""Time per line rate in the search; longer than the 1 s epochs of an unconfigured receiver."""
WAIT_NS = 5_000_000_000
WAIT_MAX_NS = 60_000_000_000
SWITCH_MARGIN_NS = 100_000_000
"""Time from the last bit of the line rate command to the change of the host's rate."""
RATES = (38_400, 115_200, 460_800, 921_600, 230_400, 57_600, 9_600, 19_200)
"""Line rates searched after the wanted one, beginning with the default of generation 9."""

_VALSET, _VALGET = (0x06, 0x8A), (0x06, 0x8B)


class Phase(Enum):
    """State of the configuration."""

    IDLE = "idle"
    SEARCH = "search"
    SWITCH = "switch"
    APPLY = "apply"
    WAIT = "wait"
    DONE = "done"


class ConfigurationOutcome(Struct, frozen=True):
    """Result of one pass. ``problems`` names the items; without problems everything reads back as
    wanted."""

    problems: tuple[str, ...]
    answered: bool
    """False if the receiver never answered; it will be tried again."""
    lacking: tuple[str, ...] = ()
    """Rejected optional items, which receivers of standard precision lack."""


class _Request(Struct):
    kind: str
    """Kind: ``set``, ``get`` (read back), ``compare`` (read, then write what differs)."""
    group: str
    items: Items
    attempts: int = 0


def _request_of(group: Group) -> _Request:
    return _Request("compare" if group.only_if_different else "set", group.name, group.items)


class Configuration:
    """State machine that configures the receiver and verifies the result; :meth:`start` begins
    again."""

    def __init__(self, params: Params, groups: Sequence[Group]) -> None:
        self._params = params
        self._groups = tuple(groups)
        self._tx: list[Action] = []
        self._queue: deque[_Request] = deque()
        self._request: _Request | None = None
        self._problems: list[str] = []
        self._refused: set[int] = set()
        self._lacking: list[str] = []
        self._rates: deque[int] = deque()
        self._rate = 0
        self._switched = False
        self._answered = False
        self._due_ns = NEVER_NS
        self._wait_ns = WAIT_NS
        self._outcome: ConfigurationOutcome | None = None
        self.phase = Phase.IDLE
        self._rate_changed = False
        self._identity: ReceiverIdentity | None = None

    # ---------------------------------------------------------------- verbs

    def start(self, now_ns: int) -> None:
        """Start from the beginning: the port has opened, or the receiver has lost its settings."""
        self._wait_ns = WAIT_NS
        self._outcome = None
        self._rate = 0
        self._begin(now_ns)

    def stop(self) -> None:
        """Stop, because the port is lost."""
        self.phase = Phase.IDLE
        self._request = None
        self._queue.clear()
        self._tx.clear()
        self._due_ns = NEVER_NS

    def on_frame(self, now_ns: int) -> None:
        """Register a valid frame of any protocol, which confirms the line rate."""
        if self.phase is not Phase.SEARCH:
            return
        wanted = self._params.baud
        if wanted is None or self._rate == wanted:
            self._apply(now_ns)
        else:
            self._switch(wanted, now_ns)

    def on_version(self, identity: ReceiverIdentity) -> None:
        """Register a version reply, which confirms that the receiver reads commands and says what
        its firmware has."""
        self._answered = True
        if self._identity is not None:
            return
        self._identity = identity
        if self.phase is Phase.APPLY:
            self._queue.extend(map(_request_of, groups_of(identity, self._params)))

    def on_answer(self, answer: Ack | Nak, now_ns: int) -> None:
        """Handle an acknowledgement or rejection."""
        request = self._request
        if request is None:
            return
        kind = _VALSET if request.kind == "set" else _VALGET
        if tuple(answer) != kind:
            return
        self._answered = True
        if isinstance(answer, Nak):
            self._refuse(request)
        elif request.kind == "set":
            self._queue.appendleft(_Request("get", request.group, request.items))
        else:
            # The values come in a separate message before this one.
            return
        self._next(now_ns)

    def on_values(self, values: CfgValget, now_ns: int) -> None:
        """Check the values read back."""
        request = self._request
        if request is None or request.kind == "set":
            return
        read = dict(values.items)
        if read.keys() != {key for key, _ in request.items}:
            return
        self._answered = True
        wrong = tuple(item for item in request.items if read[item[0]] != item[1])
        if request.kind == "compare":
            if wrong:
                self._queue.appendleft(_Request("set", request.group, wrong))
        else:
            self._problems += [
                f"{key_name(key)} reads back {read[key]} instead of {value}" for key, value in wrong
            ]
        self._next(now_ns)

    def next_due_ns(self) -> int:
        """Return the time of the next :meth:`on_time`."""
        return self._due_ns

    def on_time(self, now_ns: int) -> None:
        """Handle a timeout or the end of a pause."""
        if now_ns < self._due_ns:
            return
        match self.phase:
            case Phase.SEARCH:
                self._search(now_ns)
            case Phase.SWITCH:
                self._rates.clear()
                self._rates.extend(self._candidates())
                self.phase = Phase.SEARCH
                self._search(now_ns)
            case Phase.APPLY:
                self._unanswered(now_ns)
            case Phase.WAIT:
                self._begin(now_ns)
            case _:
                self._due_ns = NEVER_NS

    def take_tx(self) -> list[Action]:
        """Drain the actions, in order."""
        tx, self._tx = self._tx, []
        return tx

    def take_rate_changed(self) -> bool:
        """Return True once after the line rate changed, which invalidates buffered bytes."""
        changed, self._rate_changed = self._rate_changed, False
        return changed

    def take_outcome(self) -> ConfigurationOutcome | None:
        """Return the result of a pass, once."""
        outcome, self._outcome = self._outcome, None
        return outcome

    # ---------------------------------------------------------------- line rate

    def _begin(self, now_ns: int) -> None:
        self._problems = []
        self._refused = set()
        self._lacking = []
        self._identity = None
        self._queue.clear()
        self._request = None
        self._switched = False
        self._answered = False
        self._rates.clear()
        self._rates.extend(self._candidates())
        self.phase = Phase.SEARCH
        self._search(now_ns)

    def _candidates(self) -> list[int]:
        wanted = self._params.baud
        # Without a line rate (USB) the same request is repeated.
        return (
            [0] * ATTEMPTS
            if wanted is None
            else [wanted, *(rate for rate in RATES if rate != wanted)]
        )

    def _search(self, now_ns: int) -> None:
        if not self._rates:
            if self._params.baud is None:
                problem = (
                    "no data from the receiver: check its power, its cable and that its port "
                    "is set to UBX"
                )
            else:
                problem = (
                    "no data from the receiver at any line rate "
                    f"({', '.join(map(str, sorted(RATES)))})"
                )
            self._fail(problem, now_ns)
            return
        rate = self._rates.popleft()
        if rate and rate != self._rate:
            self._rate = rate
            self._rate_changed = True
            self._tx.append(SetBaud(rate))
        self._due_ns = now_ns + LISTEN_NS
        self._tx.append(Send(poll("MON-VER"), self._due_ns))

    def _switch(self, wanted: int, now_ns: int) -> None:
        if self._switched:
            self._fail(f"the receiver stays at line rate {self._rate} instead of {wanted}", now_ns)
            return
        self._switched = True
        order = encode(CfgValset(baud_item(self._params)))
        self._tx.append(Send(order, now_ns + ANSWER_NS))
        self.phase = Phase.SWITCH
        # The acknowledgement may come at either rate, so only a frame at the new rate confirms the
        # change.
        self._due_ns = now_ns + len(order) * 10 * 1_000_000_000 // self._rate + SWITCH_MARGIN_NS

    # ---------------------------------------------------------------- items

    def _apply(self, now_ns: int) -> None:
        self.phase = Phase.APPLY
        own = groups_of(self._identity, self._params) if self._identity is not None else ()
        self._queue.extend(map(_request_of, (*self._groups, *own)))
        self._next(now_ns)

    def _next(self, now_ns: int) -> None:
        while self._queue:
            request = self._queue.popleft()
            if self._identity is not None:
                lacks = self._identity.lacks
                request.items = tuple(
                    item for item in request.items if not lacks(key_name(item[0]))
                )
            if request.items:
                self._request = request
                self._send(now_ns)
                return
        self._request = None
        self._due_ns = NEVER_NS
        self.phase = Phase.DONE
        everything = {key for key, _ in chain.from_iterable(group.items for group in self._groups)}
        if self._refused >= everything:
            self._problems = [
                (
                    "the receiver rejects every setting: it is not of generation 9, or its "
                    "configuration is locked"
                )
            ]
            self._lacking = []
        self._outcome = ConfigurationOutcome(tuple(self._problems), True, tuple(self._lacking))

    def _send(self, now_ns: int) -> None:
        request = self._request
        assert request is not None
        request.attempts += 1
        self._due_ns = now_ns + ANSWER_NS
        if request.kind == "set":
            data = encode(CfgValset(request.items))
        else:
            data = encode(CfgValgetPoll(tuple(key for key, _ in request.items)))
        self._tx.append(Send(data, self._due_ns))

    def _refuse(self, request: _Request) -> None:
        items = request.items
        if request.kind == "compare":
            # The write request finds out which item is rejected.
            self._queue.appendleft(_Request("set", request.group, items))
        elif len(items) > 1:
            half = len(items) // 2
            self._queue.extendleft(
                (
                    _Request(request.kind, request.group, items[half:]),
                    _Request(request.kind, request.group, items[:half]),
                )
            )
        else:
            key, value = items[0]
            self._refused.add(key)
            if value == 0 or key in DISPENSABLE:
                # A feature that the receiver lacks need not be switched off.
                self._lacking += [key_name(key)] if value else []
                return
            what = f"{value} is rejected" if request.kind == "set" else "cannot be read back"
            self._problems.append(f"{key_name(key)} {what}")

    def _unanswered(self, now_ns: int) -> None:
        request = self._request
        assert request is not None
        if request.attempts < ATTEMPTS:
            self._send(now_ns)
        elif request.kind == "set" and self._answered:
            # Perhaps only the acknowledgement was lost.
            self._queue.appendleft(_Request("get", request.group, request.items))
            self._next(now_ns)
        elif self._answered:
            self._problems.append(
                f"{request.group}: no reply to the read-back of "
                f"({', '.join(key_name(k) for k, _ in request.items)})"
            )
            self._next(now_ns)
        else:
            self._fail(
                (
                    "the receiver sends but does not reply: check the line to it, and that its "
                    "input protocol includes UBX"
                ),
                now_ns,
            )

    def _fail(self, problem: str, now_ns: int) -> None:
        self._request = None
        self._queue.clear()
        self.phase = Phase.WAIT
        self._due_ns = now_ns + self._wait_ns
        self._wait_ns = min(2 * self._wait_ns, WAIT_MAX_NS)
        self._outcome = ConfigurationOutcome((problem,), False)
