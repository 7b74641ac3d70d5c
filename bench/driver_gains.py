"""Steering of a driver per metre and per radian of error, within drives: what a network learns from
it, and what it cannot.

    python bench/driver_gains.py [--json] [LABEL=PLACE ...]

A place is a table of the published training data, a data set of ``vehicled learn dataset``, or a
folder of these; by default the published data of a person and of the MPC in
``~/vehicled/data/nn_training_2023``. Of each drive the means are taken off first: the constant
steering of a circle is no answer to an error. ``still`` is the part of the rows in which the
steering stays as it was.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from vehicled.offline.learning.dataset import Meaning, files_in, load, read_drives
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.run.terminal import print_table

LEFT, HEADING = "reference_left_m", "reference_heading_rad"
"""Errors of the published state that steering answers."""


def gains(place: str) -> dict[str, float]:
    """Return the gains of the steering, their part of its variance, and how often the steering
    rests."""
    files = files_in([place])
    sets = [
        load(file)
        if file.suffix == ".parquet"
        else read_drives([str(file)], Meaning(predicts=False))[0]
        for file in files
    ]
    errors, steering, rests = [], [], []
    for data in sets:
        names = data.meaning.features
        for number in np.unique(data.drive):
            rows = data.drive == number
            x = data.features[rows][:, [names.index(LEFT), names.index(HEADING)]]
            errors.append(x - x.mean(axis=0))
            command = data.commands["steering"][rows]
            steering.append(command - command.mean())
            rests.append(np.diff(command) == 0.0)
    x, y = np.vstack(errors), np.concatenate(steering)
    found = np.linalg.lstsq(x, y, rcond=None)[0]
    explained = 1.0 - float(np.sum((y - x @ found) ** 2) / np.sum(y * y))
    still = float(np.concatenate(rests).mean())
    return {
        "per_m": float(found[0]),
        "per_rad": float(found[1]),
        "explained": explained,
        "still": still,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", metavar="LABEL=PLACE")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    root = Path(DATA_FOLDER).expanduser() / "nn_training_2023"
    places = arguments.places or [f"person={root / 'manual'}", f"mpc={root / 'mpc'}"]
    found = {label: gains(place) for label, _, place in (text.partition("=") for text in places)}
    if arguments.json:
        print(json.dumps(found))
        return
    rows = [[label, *(f"{value:.3f}" for value in each.values())] for label, each in found.items()]
    print_table(
        "Steering, as a fraction of full",
        ["driver", "per m left", "per rad", "part explained", "still"],
        rows,
    )


if __name__ == "__main__":
    main()
