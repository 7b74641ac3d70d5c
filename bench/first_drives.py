"""Value of a few first drives: planar with the constants found in the first runs of each folder, on
all other runs.

    python bench/first_drives.py [--data ~/vehicled/data/mocap_ekf_mpc_2023] [--kind mocap]
        [--drives 1 3 6]

No truth is used to find the constants; it only judges. Errors are means over the other runs.
"""

import argparse
from pathlib import Path

from vehicled.estimation.planar.params import PlanarParams
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.recordings.recording import Recording
from vehicled.offline.recordings.set_up import find, judged
from vehicled.run.terminal import print_table


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default=str(Path(DATA_FOLDER).expanduser() / "mocap_ekf_mpc_2023")
    )
    parser.add_argument("--kind", default="mocap")
    parser.add_argument("--drives", type=int, nargs="+", default=[1, 3, 6])
    arguments = parser.parse_args()
    drives = [
        drive for source in sources(arguments.data) for drive in source.load((arguments.kind,))
    ]
    folders: dict[str, list[Recording]] = {}
    for drive in drives:
        folders.setdefault(drive.name.rpartition("/")[0], []).append(drive)
    rows = []
    for number in arguments.drives:
        for folder, inside in folders.items():
            first = inside[:number]
            found = find(first, PlanarParams(), drives[0].vehicle)
            results = [
                judged(drive, PlanarParams(), drive.vehicle, found)
                for drive in drives
                if drive not in first
            ]
            means = [
                sum(getattr(one, name) for one in results) / len(results)
                for name in ("raw_m", "before_m", "after_m")
            ]
            worst = max(one.after_m / one.raw_m for one in results)
            rows.append(
                [str(len(first)), folder, *(f"{mean:.3f}" for mean in means), f"{worst:.2f}"]
            )
    heads = [
        "first drives",
        "of folder",
        "raw (m)",
        "defaults (m)",
        "calibrated (m)",
        "worst over raw",
    ]
    print_table("Position error on all other drives", heads, rows)


if __name__ == "__main__":
    try:
        main()
    except RecordingError as error:
        print(f"skipped: {error}; vehicled data fetch mocap_ekf_mpc_2023")
