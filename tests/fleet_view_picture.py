"""Picture of docs/fleets.md: ``python -m tests.fleet_view_picture`` drives the convoy in real time
and draws the page of the fleet anew."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.closed_loop.browser import browser

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "img" / "fleet_view.png"


@contextmanager
def shown_fleet(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Drive a fleet in real time with its page; yield the process and the address."""
    command = ["sim", "--clock", "wall", "--view", "127.0.0.1:0", "--json", "--no-log"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vehicled", *command, *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        urls = (re.search(r"live view of the fleet: (http\S+)", line) for line in process.stderr)
        yield process, next(found[1] for found in urls if found)
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Draw the picture."""
    convoy = "docs/examples/convoy/convoy.toml"
    with (
        TemporaryDirectory() as folder,
        shown_fleet("--fleet", convoy) as (_, url),
        browser(Path(folder)) as tab,
    ):
        tab.size(1200, 640, dark=False, mobile=False)
        tab.open(url)
        speeds = "[...document.querySelectorAll('.speed')].map(each => parseFloat(each.innerText))"
        tab.until(f"{speeds}.length === 4 && {speeds}.every(speed => speed > 1)")
        tab.value("document.querySelectorAll('#vehicles button')[3].click()")
        tab.until("document.querySelectorAll('.mode.faulty').length === 1")
        tab.listen(1.0)
        tab.picture(PICTURE)


if __name__ == "__main__":
    main()
