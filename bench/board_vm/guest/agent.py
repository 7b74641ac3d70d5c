"""The other end of the bench in the virtual machine: runs commands and asks the daemon, for the
host.

A line of JSON on the virtio port for each request and each answer. It stays in memory, because
starting a Python takes the emulated processor seconds: ``ask`` is a control client without that.
Needs only the standard library.
"""

import grp
import json
import os
import pwd
import signal
import socket
import subprocess
import threading
import time
from typing import Any

PORT = "/dev/virtio-ports/agent"
SOCKET = "/run/vehicled/board.sock"
LINE_LIMIT = 400_000
"""Longest output of a command that is handed over, bytes: its end."""


def become(user: str) -> None:
    """Take the identity of a user, with its groups as they are now."""
    entry = pwd.getpwnam(user)
    groups = [group.gr_gid for group in grp.getgrall() if user in group.gr_mem]
    os.setgroups(groups)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def shell(request: dict[str, Any]) -> dict[str, Any]:
    """Run a command by the shell, as root or as another user."""
    user = request.get("user", "root")
    home = pwd.getpwnam(user).pw_dir
    process = subprocess.Popen(
        ["/bin/sh", "-c", request["command"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=home if os.path.isdir(home) else "/",
        env={
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": home,
            "USER": user,
            "LC_ALL": "C.UTF-8",
        },
        start_new_session=True,
        preexec_fn=(lambda: become(user)) if user != "root" else None,
    )
    if request.get("background"):
        threading.Thread(target=process.communicate, daemon=True).start()
        return {"status": 0, "output": "", "pid": process.pid}
    try:
        output, _ = process.communicate(timeout=request["timeout_s"])
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += b"\n*** not finished in time: killed"
    return {"status": process.returncode, "output": output[-LINE_LIMIT:].decode("utf-8", "replace")}


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Send one request to the daemon's control socket as a user, and return its answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # A process of its own, because identity belongs to a process.
        try:
            become(request.get("user", "alice"))
            found = _ask(request["request"])
        except BaseException as error:  # noqa: BLE001
            found = {"ok": False, "error": type(error).__name__, "why": str(error)}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    return {"answer": json.loads(data)}


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20.0)
        client.connect(SOCKET)
        client.sendall(json.dumps(request).encode() + b"\n")
        data = b""
        while b"\n" not in data:
            more = client.recv(1 << 16)
            if not more:
                raise ConnectionError("closed without an answer")
            data += more
    found: dict[str, Any] = json.loads(data.partition(b"\n")[0])
    return found


def status_until(request: dict[str, Any]) -> dict[str, Any]:
    """Poll the status until it is as asked for: in the guest, because each question from the host
    takes its time."""
    wanted, end, last = request["wanted"], time.monotonic() + request["timeout_s"], {}
    while True:
        last = ask({"user": "alice", "request": {"do": "status"}})["answer"]
        state = last.get("status", last)
        if any(state.get("mode") == mode for mode in wanted) and _speed(state) >= request.get(
            "speed_mps", -100.0
        ):
            return {"answer": last, "reached": True}
        if time.monotonic() >= end:
            return {"answer": last, "reached": False}
        time.sleep(0.2)


def _speed(state: dict[str, Any]) -> float:
    return float((state.get("estimate") or {}).get("speed_mps") or 0.0)


def now(request: dict[str, Any]) -> dict[str, Any]:
    """Return the guest's clock."""
    return {"now_s": time.monotonic()}


def sleep(request: dict[str, Any]) -> dict[str, Any]:
    """Answer later."""
    time.sleep(request["duration_s"])
    return {}


ACTIONS = {"shell": shell, "ask": ask, "status_until": status_until, "now": now, "sleep": sleep}


def serve(port: int, lock: threading.Lock, line: bytes) -> None:
    """Answer one request."""
    request = json.loads(line)
    try:
        found = ACTIONS[request["do"]](request)
    except Exception as error:  # noqa: BLE001
        found = {"failed": f"{type(error).__name__}: {error}"}
    data = json.dumps({"id": request["id"], **found}).encode() + b"\n"
    with lock:
        while data:
            data = data[os.write(port, data) :]


def main() -> None:
    """Serve until the machine ends."""
    while not os.path.exists(PORT):
        time.sleep(0.1)
    port, lock = os.open(PORT, os.O_RDWR), threading.Lock()
    data = b""
    while True:
        more = os.read(port, 1 << 16)
        if not more:
            time.sleep(0.05)
            continue
        data += more
        *lines, data = data.split(b"\n")
        for line in lines:
            threading.Thread(target=serve, args=(port, lock, line), daemon=True).start()


if __name__ == "__main__":
    main()
