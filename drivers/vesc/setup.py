"""Identification and configuration check of a VESC, which must succeed before anything is
driven."""

from drivers.vesc.appconf import (
    UNREAD,
    AppConf,
    RawAppConf,
    Unreadable,
    read_appconf,
    readable_firmwares,
)
from drivers.vesc.comm import Comm, FwVersion, Request, encode_comm
from drivers.vesc.params import VescParams

RETRY_NS = 200_000_000
RECHECK_NS = 5_000_000_000
"""Interval at which a rejected configuration is read again, because it may be corrected
meanwhile."""
MAX_REQUESTS = 10
"""Requests for the configuration before its absence is a fault."""
OLDEST_DRIVEN = (3, 40)
"""Oldest firmware driven: commands differ before 3.2 (12 is SET_MCCONF there), the servo output
before 3.34; with margin."""
NEVER_NS = 2**63 - 1


class Setup:
    """State machine that requests firmware, then application configuration, and compares them."""

    def __init__(self, params: VescParams, controller_id: int | None) -> None:
        """Compare ``controller_id`` with the configuration; None if the wire does not address by
        id."""
        self._params = params
        self._controller_id = controller_id
        self.version: FwVersion | None = None
        self.conf: AppConf | Unreadable | None = None
        self.problems: tuple[str, ...] = ()
        """Reasons why the controller must not be driven."""
        self.due_ns = NEVER_NS
        self._asked = 0

    @property
    def firmware(self) -> tuple[int, int] | None:
        """Firmware (major, minor), once known."""
        return (self.version.major, self.version.minor) if self.version else None

    @property
    def known(self) -> bool:
        """True if the firmware is known and its command numbers are supported."""
        return self.firmware is not None and self.firmware >= OLDEST_DRIVEN

    @property
    def ready(self) -> bool:
        """True if all checks passed."""
        return self.conf is not None and not self.problems

    def begin(self, now_ns: int) -> None:
        """Start again, because controller or configuration may have changed."""
        self.version = self.conf = None
        self.problems = ()
        self.due_ns = now_ns
        self._asked = 0

    def stop(self) -> None:
        """Stop requests while the controller is absent."""
        self.due_ns = NEVER_NS

    def take_request(self, now_ns: int) -> bytes | None:
        """Return the payload of the due request."""
        if now_ns < self.due_ns:
            return None
        if self.version is None:
            self.due_ns = now_ns + RETRY_NS
            return encode_comm(Request(Comm.FW_VERSION))
        self._asked += 1
        if self.conf is None and self._asked > MAX_REQUESTS:
            self.problems = (
                f"its configuration was asked for {MAX_REQUESTS} times and never came",
            )
        self.due_ns = now_ns + (RECHECK_NS if self.problems else RETRY_NS)
        return encode_comm(Request(Comm.GET_APPCONF))

    def on_version(self, version: FwVersion, now_ns: int) -> bool:
        """Handle a version reply; return False if it was known. The configuration request follows
        if its layout is known."""
        if self.version is not None:
            return False
        self.version = version
        if self.firmware is not None and self.firmware < OLDEST_DRIVEN:
            oldest = f"{OLDEST_DRIVEN[0]}.{OLDEST_DRIVEN[1]}"
            self.conf = Unreadable("too old")
            self.problems = (
                (
                    f"firmware {version.major}.{version.minor:02d} is too old to be driven (needs "
                    f"{oldest})"
                ),
            )
            self.due_ns = NEVER_NS
        elif self.firmware not in readable_firmwares():
            self._judge(read_appconf(RawAppConf(b""), (version.major, version.minor)), NEVER_NS)
        else:
            self.due_ns = now_ns
        return True

    def on_appconf(self, raw: RawAppConf, now_ns: int) -> bool:
        """Handle the configuration; return False if it was not requested."""
        if self.version is None or self.firmware is None or not self.known or self.ready:
            return False
        conf = read_appconf(raw, self.firmware, test_build=self.version.test_version > 0)
        self._judge(conf, now_ns + RECHECK_NS)
        return True

    def _judge(self, conf: AppConf | Unreadable, recheck_ns: int) -> None:
        self.conf = conf
        self.problems = tuple(_problems(conf, self._params, self._controller_id))
        self.due_ns = recheck_ns if self.problems else NEVER_NS


def _problems(
    conf: AppConf | Unreadable, params: VescParams, controller_id: int | None
) -> list[str]:
    if isinstance(conf, Unreadable):
        if params.accept_unreadable_timeout:
            return []
        return [
            (
                f"its command time-out cannot be read back: {conf.reason}; look at it by hand and "
                "set accept_unreadable_timeout"
            )
        ]
    found = []
    if controller_id is not None and conf.controller_id != controller_id:
        found.append(
            f"the configuration is that of controller {conf.controller_id}, not {controller_id}"
        )
    if conf.timeout_ms == 0:
        found.append("its command time-out is off (0 ms): it would run on without us")
    elif conf.timeout_ms > params.timeout_ms:
        found.append(
            f"its command time-out is {conf.timeout_ms} ms, the profile allows "
            f"{params.timeout_ms} ms"
        )
    if conf.timeout_brake_current_a < params.timeout_brake_current_a - 0.01:
        action = (
            "coasts"
            if conf.timeout_brake_current_a == 0.0
            else f"brakes with {conf.timeout_brake_current_a:g} A"
        )
        found.append(
            f"on time-out it {action}, the profile wants {params.timeout_brake_current_a:g} A "
            "of brake current"
        )
    if params.steering and conf.servo_output not in (UNREAD, 1):
        found.append(
            "its servo output is off (App Settings > General > Enable Servo Output): it would "
            "not steer"
        )
    return found
