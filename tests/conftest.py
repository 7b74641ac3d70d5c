"""Fixtures of every test: both async backends, repeatable hypothesis, and a guard against leaked
resources."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

# As the command line does before it imports numpy: helper threads would only cost time.
os.environ.update(
    dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from tests.busy_computer import DEADLINE_S
from tests.listed_skips import pytest_sessionfinish  # noqa: F401 - a hook
from vehicled.runtime import realtime  # noqa: F401 - it counts what is frozen before the tests are
from vehicled.runtime.loop import new_event_loop

ROOT = Path(__file__).resolve().parent.parent
NICENESS = os.getpriority(os.PRIO_PROCESS, 0)

# The checks of a change repeat exactly, with a few examples; `make soak` has more, and
# HYPOTHESIS_PROFILE=search looks for new ones as long as it likes. No deadline in any: it would
# measure the machine, not the code.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile(
    "test", derandomize=True, database=None, max_examples=10, **_COMMON
)
hypothesis.settings.register_profile(
    "soak", derandomize=True, database=None, max_examples=100, **_COMMON
)
hypothesis.settings.register_profile("search", max_examples=2_000, **_COMMON)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))
if hypothesis.settings().derandomize:
    # Hypothesis also tries the constants of all modules of the project that happen to be loaded: it
    # would parse them for that, and the examples would change with the order of the tests.
    vars(providers)["is_local_module_file"] = lambda _: False

# What the daemons and simulators of the tests keep for the next run stays in the checkout, too.
os.environ["XDG_CACHE_HOME"] = str(ROOT / ".pytest_cache" / "home")


def own_inherited_state() -> None:
    """Give the programs that tests start the same state, whether nohup, a background job, cron or a
    terminal started the tests.

    Ignored signals and the signal mask are inherited, through every child. A handler is not: this
    process goes on ignoring what it was set to ignore, and its children begin with the default. A
    closed descriptor 0 would become the next file that is opened.
    """
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCHLD,
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.dup2(os.open(os.devnull, mode), descriptor)
    os.umask(0o022)
    # The width of the terminal and its colours are not what a test is about.
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        os.environ.pop(name, None)


if threading.current_thread() is threading.main_thread():
    own_inherited_state()


# Until all tests are collected there is no garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector the collected tests: they live to the end, and every full
    collection would visit them."""
    gc.enable()
    # Few objects of the tests are in cycles; at the usual threshold the collector visits every
    # drive some thousand times.
    gc.set_threshold(20000, 20, 20)
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a case by the beginning of a long text: a name of megabytes would travel between the
    workers with every report."""
    return (
        f"{val[:40]!r} and more, {len(val)} long"
        if isinstance(val, str | bytes) and len(val) > 200
        else None
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the drives in wall time go first, where that is allowed: they wait most of their time."""
    wall = any("wall" in mark.args for mark in item.iter_markers("xdist_group"))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS - 10 if wall else NICENESS)


_BACKENDS = [
    pytest.param(("asyncio", {"loop_factory": new_event_loop}), id="asyncio"),
    pytest.param(("trio", {}), id="trio"),
]


@pytest.fixture(autouse=True)
def _handlers_of_signals() -> Iterator[None]:
    """Restore the handlers: a program that runs inside a test sets its own, and later children
    would ignore Ctrl-C like it."""
    kept = [
        (number, signal.getsignal(number))
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    ]
    yield
    for number, handler in kept:
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(params=_BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Backend of a test marked ``anyio``: asyncio on the precise loop of the runtime, and trio."""
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


@pytest.fixture(scope="session")
def project_root() -> Path:
    """Root of the checkout."""
    return ROOT


def _reference_folder() -> Path:
    """Folder of real recordings; VEHICLED_REFERENCE_DATA names another one, or none if it is
    empty."""
    return Path(
        os.environ.get("VEHICLED_REFERENCE_DATA", str(ROOT.parent / "shared" / "data"))
        or os.devnull
    )


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of reference recordings, for numbers that only they hold; skips the test if it is
    missing."""
    folder = _reference_folder()
    if not folder.is_dir():
        pytest.skip(f"checks numbers of real recordings, and there are none in {folder}")
    return folder


@pytest.fixture(scope="session")
def shared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of reference recordings and courses, or a generated one of the same layout."""
    folder = _reference_folder()
    if folder.is_dir():
        return folder
    from tests.stand_ins import make

    return make(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Folder on a file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if (
        sys.platform != "linux"
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _descriptors() -> dict[str, str]:
    """Return open descriptors of this process by number, with their targets; empty without
    /proc."""
    found: dict[str, str] = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor that listed the folder
        # Matplotlib keeps its fonts open from the first drawing on.
        if not target.endswith(".ttf"):
            found[name] = target
    return found


def _children() -> set[str]:
    """Return process ids of living or unreaped children; empty if the kernel does not list them."""
    found: set[str] = set()
    for task in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ():
        try:
            with open(f"/proc/self/task/{task}/children") as children:
                found.update(children.read().split())
        except OSError:
            continue  # the thread ended meanwhile
    return found


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaks a thread, a child process or a descriptor: on a vehicle that is a port
    nobody can reopen."""
    threads, children, descriptors = set(threading.enumerate()), _children(), _descriptors()
    yield
    left = []
    for thread in set(threading.enumerate()) - threads:
        # Daemon threads are caches of the async libraries; they hold nothing and end by themselves.
        if not thread.daemon:
            thread.join(timeout=DEADLINE_S)
            if thread.is_alive():
                left.append(f"thread {thread.name}")
    left += [f"child process {pid}" for pid in _children() - children]
    if set(_descriptors()) - set(descriptors):
        gc.collect()  # what only a reference cycle kept open is not a leak
        after = _descriptors()
        left += [
            f"descriptor {number} ({after[number]})" for number in set(after) - set(descriptors)
        ]
    assert not left, f"the test left behind: {', '.join(sorted(left))}"
