"""The virtual machine: qemu, its monitor, and the agent in the guest."""

import itertools
import json
import queue
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from bench.board_vm.image import Image

MEMORY_MB = 1536
PROCESSORS = 2
# No -icount: the guest's time runs away with sleep=off while it waits for the disk (hung tasks at
# the boot), and leaps with sleep=on when the host is busy (by 21 s).
QUICK = "tsc=reliable mitigations=off"
"""Options of the kernel for an emulated processor."""
BOOT_S = 1800.0
"""Longest boot by the wall clock, s."""
SLOWEST = 60.0
"""Largest factor of the wall clock on the guest's, whose processor is emulated by a host that has
other work."""
POLL = 10.0
"""The same factor while nobody may be there to answer."""


class MachineError(Exception):
    """The virtual machine did not do what the bench needs; it is no verdict on the service."""


class Line:
    """Lines of JSON on a Unix socket. A thread reads them; the socket ends with the machine."""

    def __init__(self, path: Path, alive: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + 30.0
        self._socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self._socket.connect(str(path))
                break
            except OSError:
                if alive.poll() is not None or time.monotonic() > end:
                    raise MachineError("qemu does not start: see qemu.log") from None
                time.sleep(0.1)

    def send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def received(self) -> Iterator[dict[str, Any]]:
        """Iterate over the lines until the other end is gone."""
        data = b""
        while True:
            try:
                more = self._socket.recv(1 << 16)
            except OSError:
                return
            if not more:
                return
            *lines, data = (data + more).split(b"\n")
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # half a line of an agent that a power cut ended

    def close(self) -> None:
        # shutdown wakes the thread that reads; close alone does not.
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()


class Machine:
    """One virtual machine with a disk of its own."""

    def __init__(self, image: Image, folder: Path) -> None:
        """``folder``: for disk, sockets and consoles."""
        self._image, self._folder = image, folder
        self.share = folder / "share"
        """Folder that the guest has as ``/bench``."""
        self.share.mkdir(parents=True, exist_ok=True)
        self.disk = folder / "disk.img"
        subprocess.run(["cp", "--sparse=always", str(image.disk), str(self.disk)], check=True)
        self._boots = itertools.count(1)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: Line | None = None
        self._agent: Line | None = None
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._waiting: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        """Events of qemu since the start of the bench: resets and watchdogs."""

    # ---------------------------------------------------------------- power

    def power_on(self, options: str = "rw") -> None:
        """Start qemu; the guest begins to boot, with these options of the kernel."""
        folder, boot = self._folder, next(self._boots)
        for name in ("monitor", "agent"):
            (folder / name).unlink(missing_ok=True)
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", str(PROCESSORS), "-cpu",
            "max", "-m", str(MEMORY_MB), "-display", "none", "-net", "none",
            "-no-user-config", "-nodefaults", "-kernel", str(self._image.kernel), "-initrd",
            str(self._image.initrd),
            "-append", f"root=/dev/vda console=ttyS0 quiet {QUICK} {options}",
            "-drive", f"file={self.disk},format=raw,if=virtio",
            "-device", "i6300esb", "-action", "watchdog=reset",
            "-chardev", "null,id=printer", "-device", "isa-parallel,chardev=printer",
            "-virtfs", f"local,path={self.share},mount_tag=bench,security_model=none",
            "-device", "virtio-serial",
            "-chardev", f"socket,id=agent,path={folder / 'agent'},server=on,wait=off",
            "-device", "virtserialport,chardev=agent,name=agent",
            "-chardev", f"file,id=console,path={folder / f'console-{boot}.txt'}", "-serial",
            "chardev:console", "-serial", "null", "-qmp",
            f"unix:{folder / 'monitor'},server=on,wait=off",
        ]  # fmt: skip
        with (folder / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._monitor = Line(folder / "monitor", self._process)
        threading.Thread(target=self._read_monitor, args=(self._monitor,), daemon=True).start()
        self.monitor("qmp_capabilities")
        self._agent = Line(folder / "agent", self._process)
        threading.Thread(target=self._read_agent, args=(self._agent,), daemon=True).start()

    def power_off(self) -> None:
        """Cut the power, without warning to the guest. Idempotent."""
        for line in (self._monitor, self._agent):
            if line is not None:
                line.close()
        self._monitor = self._agent = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait_for_agent(self, timeout_s: float = BOOT_S) -> None:
        """Wait until the guest answers; limit by the wall clock."""
        start = time.monotonic()
        while (spent := time.monotonic() - start) < timeout_s:
            try:
                if (
                    self.agent(
                        {"do": "shell", "command": "true", "timeout_s": 20.0}, 1.0, POLL
                    ).get("status")
                    == 0
                ):
                    return
            except MachineError:
                if self._process is None or self._process.poll() is not None:
                    raise MachineError("qemu has ended: see qemu.log") from None
        raise MachineError(f"the guest does not answer after {spent:.0f} s: see the console's file")

    def crash(self, timeout_s: float = 60.0) -> None:
        """Crash the guest's kernel and wait until its watchdog has reset the machine, within so
        long of the guest's time."""
        before = len(self.events)
        command = "sleep 0.5; echo c >/proc/sysrq-trigger"
        self.agent({"do": "shell", "command": command, "background": True}, 10.0)
        self.wait_for_event("WATCHDOG", before, SLOWEST * timeout_s)
        self.wait_for_agent()

    # ---------------------------------------------------------------- monitor

    def monitor(self, execute: str, **arguments: Any) -> Any:
        """Run a command of qemu's monitor. Raises MachineError if it is refused."""
        if self._monitor is None:
            raise MachineError("the machine is off")
        self._monitor.send({"execute": execute, "arguments": arguments})
        try:
            reply = self._replies.get(timeout=30.0)
        except queue.Empty:
            raise MachineError(f"qemu does not answer {execute}") from None
        if "error" in reply:
            raise MachineError(f"qemu refuses {execute}: {reply['error']['desc']}")
        return reply["return"]

    def wait_for_event(self, name: str, since: int, timeout_s: float) -> dict[str, Any]:
        """Wait for an event of qemu; ``since``: number of events that were there before."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            for event in self.events[since:]:
                if event["event"] == name:
                    return event
            time.sleep(0.05)
        raise MachineError(f"no event {name} within {timeout_s:.0f} s")

    # ---------------------------------------------------------------- agent

    def agent(
        self, request: dict[str, Any], timeout_s: float, slowest: float = SLOWEST
    ) -> dict[str, Any]:
        """Send a request that takes the guest so long, s of its time; return the answer. Raises
        MachineError without one."""
        line = self._agent
        if line is None:
            raise MachineError("the machine is off")
        number = next(self._numbers)
        answer = self._waiting[number] = queue.Queue()
        try:
            line.send(request | {"id": number})
            found = answer.get(timeout=slowest * (timeout_s + 1.0))
        except (OSError, queue.Empty):
            raise MachineError(f"the guest gives no answer to {request['do']}") from None
        finally:
            del self._waiting[number]
        if "failed" in found:
            raise MachineError(f"the guest cannot {request['do']}: {found['failed']}")
        return found

    def _read_monitor(self, line: Line) -> None:
        for message in line.received():
            if "event" in message:
                self.events.append(message)
            elif "QMP" not in message:
                self._replies.put(message)

    def _read_agent(self, line: Line) -> None:
        for message in line.received():
            waiting = self._waiting.get(message["id"])
            if waiting is not None:
                waiting.put(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.power_off()

    def collect(self, out: Path) -> None:
        """Copy consoles and qemu's messages."""
        for path in [*self._folder.glob("console-*.txt"), self._folder / "qemu.log"]:
            if path.exists():
                shutil.copy(path, out)
