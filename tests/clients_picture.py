"""Picture of docs/clients.md: ``python -m tests.clients_picture`` drives the lap with the programs
of ``vehicled new client``: stepped in C++ and in the language of MATLAB, and in C++ in wall
time."""

import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.busy_computer import WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import ROOT, Daemon
from tests.closed_loop.test_clients import octave, serving
from vehicled.cli.new_client import CLIENTS
from vehicled.core.arrays import Array
from vehicled.live.control_socket.socket_path import SocketPathError, socket_path
from vehicled.paths.catalog import load_course
from vehicled.run.output import new_figure, save_figure

PICTURE = ROOT / "docs" / "img" / "clients_lap.png"
COURSE = "figure_eight"


def built(program: str, folder: Path) -> str:
    """Build a program in C++; return its file."""
    source = CLIENTS / "cpp" / f"{program}.cpp"
    subprocess.run(["g++", "-std=c++17", "-O1", source, "-o", folder / program], check=True)
    return str(folder / program)


def tracks(folder: Path) -> dict[str, Array]:
    """Drive the lap three times; return x, y and cross-track error (n, 3) of each."""
    stepped, stepped_octave, driven = (
        folder / f"{name}.csv" for name in ("stepped", "stepped_octave", "driven")
    )
    with serving("simulation", "--course", COURSE, "--seed", "3") as (address, token):
        command = [built("step_lap", folder), address, token, "--seed", "3"]
        subprocess.run([*command, "--csv", stepped], check=True)
        text = f"step_lap('{address}', '{token}', Inf, 3)"
        run = f"pkg load instrument-control; dlmwrite('{stepped_octave}', {text}, 'precision', 9);"
        subprocess.run([octave(), "-q", "--path", CLIENTS / "matlab", "--eval", run], check=True)
    options = "--clock", "wall", "--by-hand", "--course", COURSE, "--seed", "3", *WIDE_LIMITS
    daemon = Daemon(list(options), folder)
    try:

        def listens() -> bool:
            with suppress(SocketPathError):
                return socket_path("art").exists()
            return False

        wait_until(listens, daemon.process.poll)
        command = [built("drive_lap", folder), f"unix:{socket_path('art')}"]
        subprocess.run([*command, "--csv", driven], check=True)
    finally:
        daemon.process.kill()
        daemon.process.wait()
    return {
        "C++, stepped": np.loadtxt(stepped, delimiter=",", skiprows=1),
        "MATLAB language in Octave, stepped": np.loadtxt(stepped_octave, delimiter=","),
        "C++, setpoints in wall time (estimate)": np.loadtxt(driven, delimiter=",", skiprows=1),
    }


def main() -> None:
    """Draw the picture."""
    course = load_course(COURSE)
    figure = new_figure(10, 4.2)
    way, error = figure.subplots(1, 2)
    way.plot(course.x_m, course.y_m, color="#c0c0c0", lw=6.0, label="course")
    with TemporaryDirectory() as folder:
        found = tracks(Path(folder))
    styles = ("#1f77b4", "-"), ("#ff8c1a", "--"), ("#2ca02c", ":")
    for (name, track), (colour, style) in zip(found.items(), styles, strict=True):
        x, y, off = track.T
        way.plot(x, y, color=colour, ls=style, label=name)
        driven = np.concatenate(([0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))))
        error.plot(driven, 100.0 * off, color=colour, ls=style)
    way.set(xlabel="east (m)", ylabel="north (m)")
    way.set_aspect("equal")
    error.set(xlabel="driven (m)", ylabel="cross-track error (cm)")
    figure.legend(*way.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    save_figure(figure, str(PICTURE))


if __name__ == "__main__":
    main()
