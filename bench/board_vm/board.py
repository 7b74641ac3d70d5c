"""The board as the checks see it: shell, control socket, journal, devices and power."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.board_vm.image import Image
from bench.board_vm.machine import Machine, MachineError

HERE = Path(__file__).parent
PROFILE = "board"
UNIT = f"vehicled@{PROFILE}.service"
ENV = f"/etc/vehicled/{PROFILE}.env"
DROP_INS = f"/etc/systemd/system/{UNIT}.d"
LOGS = "/var/lib/vehicled/vehicled/logs"
WHOLE_LOG = "89 4d 43 41 50 30 0d 0a"
"""Last bytes of a log that was closed, as ``od`` prints them."""
COURSE = "circle_r5_ccw:laps=4"
OPTIONS = f"VEHICLED_OPTIONS=--course {COURSE}"
"""A drive outlasts every check. The whole course is in the log, so that more laps take longer to
start."""
GADGETS = "/sys/kernel/config/usb_gadget"
LINKS = {
    "gnss": "usb-u-blox_AG_-_www.u-blox.com_u-blox_GNSS_receiver-if00",
    "imu": "usb-Wheeltec_N100_0003-if00",
    "heading": "usb-u-blox_AG_-_www.u-blox.com_u-blox_GNSS_receiver_rover-if00",
    "drive": "usb-Openlight_Labs_CANable_0001-if00",
}
"""USB devices of the machine and their names below ``BY_ID``, in the order of their controllers,
from ``guest/devices.sh``."""
BY_ID = "/dev/serial/by-id"
DEVICES = tuple(LINKS)
MOVING_MPS = 0.3
DRIVES_ON = ("NONE", "WARN", "CAP_SPEED")
"""Reactions of rules that stop nothing."""
DISK, DISK_MB = "/var/small.img", 32
"""File system of :func:`small_disk`."""
START_S = 200.0
"""Longest start of the service, s."""


class FailedError(AssertionError):
    """The claim of a check does not hold; the text says what was seen."""


class NotTriedError(Exception):
    """A check could not be made here; the text says why."""


def expect(true: object, text: str) -> None:
    """Fail the check with this text unless ``true``."""
    if not true:
        raise FailedError(text)


class Board:
    """The vehicle's computer."""

    def __init__(self, machine: Machine, image: Image) -> None:
        self.machine = machine
        self.release = image.release
        for path in [*(HERE / "guest").iterdir(), HERE / "board.toml"]:
            (machine.share / path.name).write_bytes(path.read_bytes())

    # ---------------------------------------------------------------- time

    def now(self) -> float:
        """Return the time since the guest's start by its own clock, s."""
        return float(self.machine.agent({"do": "now"}, 5.0)["now_s"])

    def sleep(self, duration_s: float) -> None:
        """Let the guest's clock go on."""
        self.machine.agent({"do": "sleep", "duration_s": duration_s}, duration_s)

    def wait_for(
        self, condition: Callable[[], object], text: str, timeout_s: float = 60.0
    ) -> float:
        """Wait until a condition holds; return how long it took, s. Fails the check with ``text``
        if it does not in time."""
        start = self.now()
        while not condition():
            expect(self.now() - start < timeout_s, f"{text} after {timeout_s:.0f} s")
            self.sleep(0.2)
        return self.now() - start

    # ---------------------------------------------------------------- shell

    def shell(self, command: str, *, user: str = "root", timeout_s: float = 120.0) -> str:
        """Run a command in the guest and return what it printed. Fails the check if its status is
        not 0."""
        status, output = self.status_of(command, user=user, timeout_s=timeout_s)
        expect(status == 0, f"{command!r}: status {status}: {output.strip()[-500:]}")
        return output

    def status_of(
        self, command: str, *, user: str = "root", timeout_s: float = 120.0
    ) -> tuple[int, str]:
        """Run a command in the guest; return its status and what it printed."""
        request = {"do": "shell", "command": command, "user": user, "timeout_s": timeout_s}
        found = self.machine.agent(request, timeout_s)
        return found["status"], found["output"]

    def background(self, command: str, *, user: str = "root") -> int:
        """Start a command in the guest; return its process id, which is also that of its group."""
        request = {"do": "shell", "command": command, "user": user, "background": True}
        return int(self.machine.agent(request, 30.0)["pid"])

    @contextmanager
    def running(self, command: str, *, user: str = "root") -> Iterator[int]:
        """Context in which a command runs in the guest."""
        pid = self.background(command, user=user)
        try:
            yield pid
        finally:
            self.status_of(f"kill -TERM -{pid}; sleep 0.2; kill -KILL -{pid}")

    # ---------------------------------------------------------------- daemon

    def ask(self, *, user: str = "alice", **request: Any) -> dict[str, Any]:
        """Send a request to the control socket as a user; return the answer."""
        return dict(
            self.machine.agent({"do": "ask", "user": user, "request": request}, 25.0)["answer"]
        )

    def request(self, action: str, *, user: str = "alice") -> dict[str, Any]:
        """Request a change of mode; return the answer."""
        return self.ask(user=user, do="request", action=action)

    def state(self) -> dict[str, Any]:
        """Return the state of the run. Fails the check if the daemon does not answer."""
        found = self.ask(do="status")
        expect("status" in found, f"no answer from the daemon: {found.get('why')}")
        return dict(found["status"])

    def until(
        self, *modes: str, timeout_s: float = 40.0, speed_mps: float = -100.0
    ) -> dict[str, Any]:
        """Wait for one of these modes, and for a speed. Fails the check if neither comes."""
        request = {
            "do": "status_until",
            "wanted": modes,
            "timeout_s": timeout_s,
            "speed_mps": speed_mps,
        }
        found = self.machine.agent(request, timeout_s)
        state = found["answer"].get("status", found["answer"])
        expect(
            found["reached"],
            f"not {' or '.join(modes)} within {timeout_s:.0f} s, but {described(state)}",
        )
        return dict(state)

    def drive(self, timeout_s: float = 60.0) -> dict[str, Any]:
        """Arm and drive, however the check before left the vehicle; return the state while it
        moves."""
        end = self.now() + timeout_s
        if self.show("ActiveState") != "active":
            self.start()
        while True:
            try:
                state = self.state()
                if state["mode"] == "FAULT":
                    self.request("reset")
                if state["mode"] not in ("ARMED", "AUTO"):
                    self.request("disarm")
                    self.until("STANDBY", timeout_s=20.0)
                    self.request("arm")
                    self.until("ARMED", timeout_s=20.0)
                self.request("drive")
                return self.until("AUTO", timeout_s=20.0, speed_mps=MOVING_MPS)
            except FailedError:
                if self.now() > end:
                    raise
                # Accepts the place, if the check before has left doubts of it, and joins the course
                # there: a daemon that was restarted begins at its start.
                self.request("reset")
                self.status_of(f"vehicled course set {COURSE}", user="alice")

    def stand(self) -> None:
        """Disarm and wait until the vehicle stands, with the service running."""
        if self.show("ActiveState") != "active":
            self.start()
        self.request("disarm")
        self.until("STANDBY", timeout_s=30.0)

    def port(self, name: str) -> str:
        """Return the state of a port, as the daemon reports it."""
        return str(next(port["state"] for port in self.state()["ports"] if port["name"] == name))

    def until_port(self, name: str, *wanted: str, timeout_s: float = 30.0) -> float:
        """Wait for one of these states of a port; return how long it took, s."""
        return self.wait_for(
            lambda: self.port(name).upper() in wanted,
            f"port {name} is not {' or '.join(wanted).lower()}",
            timeout_s,
        )

    def stopped(self, *codes: str, timeout_s: float = 60.0) -> str:
        """Wait until the vehicle stands disarmed and return the rule that stopped it: one of
        ``codes``, if any are given."""
        state = self.until("STANDBY", "FAULT", timeout_s=timeout_s)
        speed_mps = (state["estimate"] or {}).get("speed_mps") or 0.0
        expect(abs(speed_mps) < 0.2, f"it still rolls at {speed_mps:.2f} m/s in {state['mode']}")
        found = [link["code"] for link in state["chain"] if link["reaction"] not in DRIVES_ON]
        fitting = [code for code in found if code in codes] if codes else found
        expect(fitting, f"stopped by {', '.join(found) or 'nothing'}, not by {' or '.join(codes)}")
        return str(fitting[0])

    def drives_on(self, duration_s: float) -> None:
        """Check that the vehicle still drives after so long."""
        self.sleep(duration_s)
        state = self.state()
        expect(state["mode"] == "AUTO", f"it does not drive on, but {described(state)}")
        expect(
            state["estimate"]["speed_mps"] > MOVING_MPS,
            f"in AUTO it moves at {state['estimate']['speed_mps']:.2f} m/s",
        )

    # ---------------------------------------------------------------- service

    def show(self, prop: str) -> str:
        """Return a property of the unit, as ``systemctl show`` names it."""
        return self.shell(f"systemctl show {UNIT} --property={prop} --value").strip()

    def pid(self) -> int:
        """Return the daemon's process id; 0 if it does not run."""
        return int(self.show("MainPID"))

    def until_active(self, timeout_s: float = 120.0, *, other_than: int = 0) -> float:
        """Wait until the service is ready, with another process than this; return how long it took,
        s."""
        start = self.now()
        while True:
            state, pid = self.shell(
                f"systemctl show {UNIT} --property=ActiveState,MainPID --value"
            ).split()
            # systemd prints the properties in its own order.
            state, pid = (pid, state) if state.isdecimal() else (state, pid)
            if state == "active" and int(pid) not in (0, other_than):
                return self.now() - start
            expect(
                self.now() - start < timeout_s,
                f"the service is {state} after {timeout_s:.0f} s: {self.last_words()}",
            )
            self.sleep(0.3)

    def last_words(self) -> str:
        """Return the last lines of the unit's journal, for a verdict."""
        return " | ".join(
            self.shell(f"journalctl -u {UNIT} -o cat -n 4 --no-pager").strip().splitlines()
        )[-600:]

    def cursor(self) -> str:
        """Return the present end of the journal."""
        # A line before it says that no entries were asked for.
        return (
            self.shell("journalctl --no-pager -n 0 --show-cursor").rpartition("cursor: ")[2].strip()
        )

    def journal(self, cursor: str) -> list[dict[str, Any]]:
        """Return the daemon's events since then. systemd's own lines have the key ``systemd``."""
        lines = self.shell(
            f"journalctl -u {UNIT} -o cat --no-pager --after-cursor='{cursor}'"
        ).splitlines()
        found = []
        for line in lines:
            event = None
            with suppress(ValueError):
                event = json.loads(line)
            found.append(event if isinstance(event, dict) else {"systemd": line})
        return found

    def events(self, cursor: str, name: str) -> list[dict[str, Any]]:
        """Return the daemon's events of this name since then."""
        return [event for event in self.journal(cursor) if event.get("event") == name]

    def start(self) -> None:
        """Start the service, whatever ended it before, and wait until it is ready."""
        self.shell(f"systemctl reset-failed {UNIT}; systemctl start {UNIT}", timeout_s=START_S)

    def stop(self) -> None:
        """Stop the service in an orderly way."""
        self.shell(f"systemctl stop {UNIT}", timeout_s=60.0)

    @contextmanager
    def options(self, more: str, drive: str = "") -> Iterator[None]:
        """Context in which the service runs with more options, and the simulator plays the motor
        controller at the address ``drive``. After it the service stands still."""
        self.stop()
        try:
            self.shell(f"echo '{OPTIONS} {more}' >{ENV}")
            if drive:
                self.shell(
                    f"systemctl stop simulator; sh /bench/simulator.sh {drive}", timeout_s=START_S
                )
            self.start()
            yield
        finally:
            self.status_of(f"systemctl stop {UNIT}; echo '{OPTIONS}' >{ENV}", timeout_s=60.0)
            if drive:
                self.shell("systemctl stop simulator; sh /bench/simulator.sh", timeout_s=START_S)

    @contextmanager
    def on_vcan(self, more: str = "") -> Iterator[None]:
        """Context in which simulator and service meet on a virtual CAN bus of the kernel."""
        self.shell(
            "modprobe vcan; ip link show vcan0 2>/dev/null || ip link add vcan0 type vcan; "
            "ip link set vcan0 up"
        )
        with self.options(f"--set devices.drive.port=can:vcan0 {more}", drive="can:vcan0"):
            yield

    def newest_log(self, number: int = 0) -> str:
        """Return the path of a log, counted from the newest one."""
        logs = self.shell(f"ls -t {LOGS}/*.mcap").split()
        expect(len(logs) > number, f"only {len(logs)} logs")
        return logs[number]

    def is_whole(self, log: str) -> bool:
        """Return True if a log was closed."""
        return WHOLE_LOG in self.shell(f"tail -c 8 {log} | od -A n -t x1")

    # ---------------------------------------------------------------- devices and power

    def unplug(self, name: str) -> None:
        """Pull the USB plug of a device."""
        self.shell(f"echo '' >{GADGETS}/{name}/UDC")

    def plug(self, name: str) -> None:
        """Plug it in again."""
        self.shell(f"echo dummy_udc.{DEVICES.index(name)} >{GADGETS}/{name}/UDC")

    def boot(self, options: str = "rw") -> float:
        """Switch the machine and the vehicle on, with options of the kernel, and wait until they
        answer; return how long the machine took, s."""
        self.machine.power_on(options)
        self.machine.wait_for_agent()
        return self.wake()

    def wake(self) -> float:
        """After a reset of the computer: bring devices and CAN up; return the guest's time since
        its start, s."""
        up_s = float(self.shell("cut -d' ' -f1 /proc/uptime"))
        self.shell("sh /bench/devices.sh && sh /bench/can.sh", timeout_s=200.0)
        return up_s

    def power_cut(self) -> None:
        """Cut the power without a warning."""
        self.machine.power_off()

    def restore(self) -> None:
        """Bring the board back to the state that checks begin in, after one that failed midway:
        plugs in, the vehicle at the start of its course, the service with its options at rest."""
        with suppress(MachineError):
            self.machine.wait_for_agent(10.0)
            self.status_of(
                f"systemctl stop {UNIT} simulator; echo '{OPTIONS}' >{ENV}", timeout_s=60.0
            )
            for number, name in enumerate(DEVICES):
                udc = f"{GADGETS}/{name}/UDC"
                self.status_of(f"grep -q . {udc} || echo dummy_udc.{number} >{udc}")
            self.status_of(
                "sh /bench/devices.sh; sh /bench/can.sh; ip link set can0 up", timeout_s=START_S
            )


@contextmanager
def small_disk(board: Board) -> Iterator[None]:
    """Context in which the logs are on a file system of their own, which is soon full."""
    board.stop()
    board.shell(
        f"truncate -s {DISK_MB}M {DISK} && mke2fs -q -t ext4 -m 0 {DISK} && mount -o loop "
        f"{DISK} {LOGS}"
    )
    try:
        board.shell(f"chown vehicled:vehicled {LOGS} && chmod 750 {LOGS}")
        board.start()
        yield
    finally:
        board.status_of(
            f"systemctl stop {UNIT}; umount {LOGS} || umount --lazy {LOGS}; rm -f {DISK}",
            timeout_s=60.0,
        )
        board.start()


def described(state: dict[str, Any]) -> str:
    """Return mode and reason in a line."""
    waits = f", waits for {'; '.join(state['waiting_for'])}" if state.get("waiting_for") else ""
    return f"{state.get('mode', 'no daemon')}: {state.get('why')}{waits}"


def number_in(pattern: str, text: str) -> float:
    """Return the number that a pattern's first group matches. Fails the check if it matches
    nothing."""
    found = re.search(pattern, text)
    expect(found, f"no {pattern!r} in {text.strip()[:300]!r}")
    assert found is not None
    return float(found.group(1))
