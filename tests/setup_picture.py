"""Pictures of docs/first_vehicle.md: ``python -m tests.setup_picture`` draws a step on the
terminal, and the first lap, anew."""

import io
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from tests.setup_bench import Car, believed, truth, written
from vehicled.cli import main
from vehicled.profile import load_profile

IMAGES = Path(__file__).parents[1] / "docs" / "img"
MINE = 'name = "my_car"\nbase = "f1tenth_gnss"\n'
TRUE_ERPM = -1.06 * load_profile("f1tenth_gnss").devices["drive"].driver.selected.erpm_per_mps


def step_picture(said: list[str]) -> None:
    """Draw what a step says as a terminal."""
    console = Console(record=True, width=104, file=io.StringIO())
    for line in said:
        console.print(Text(line, "bold red" if "WRONG" in line else ""), highlight=False)
    console.save_svg(
        str(IMAGES / "setup_push.svg"),
        title="vehicled setup --profile my_car push",
        unique_id="setup",
    )


def draw() -> None:
    """Draw both pictures."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        wheel = "[vehicle.drive]\nwheel_radius_m = 0.0462\n"
        car = Car(
            truth(folder, wheel + f"[devices.drive.driver.vesc_uart]\nerpm_per_mps = {TRUE_ERPM}\n")
        )
        text = MINE
        for step in ("imu", "push", "run", "circle"):
            begin = len(car.said)
            measured = car.step(step, believed(text, folder))
            assert measured is not None
            text = written(text, measured, folder)
            if step == "push":
                step_picture(car.said[begin:])
        (folder / "my_car.toml").write_text(text)
        picture = str(IMAGES / "first_lap.png")
        mine = str(folder / "my_car.toml")
        assert (
            main(
                [
                    "sim",
                    "--profile",
                    mine,
                    "--course",
                    "circle_r5_ccw",
                    "--plot",
                    picture,
                    "--log",
                    name,
                ]
            )
            == 0
        )


if __name__ == "__main__":
    draw()
