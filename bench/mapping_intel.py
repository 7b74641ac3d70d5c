"""Map a public recording, the Intel Research Lab, by its scans and raw odometry, beside the poses
that GMapping found for it.

    python bench/mapping_intel.py FOLDER [--json]

FOLDER holds ``intel_raw__intel.rawlog`` (MRPT's raw log: 2726 scans of 180 rays, odometry of the
wheels) and ``ple__intel-corrected.log.gz`` (the same drive after GMapping, CARMEN format). Scans
that both hold to the centimetre are the same instant; there the poses are compared after a rigid
alignment. GMapping's poses are no surveyed truth.
"""

import argparse
import gzip
import json
import time
from bisect import bisect_right
from math import pi
from pathlib import Path

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.maps.matching import PlanarPose
from vehicled.offline.mapping.build import build, rigid
from vehicled.offline.mapping.drive import MappingDrive, Odometry
from vehicled.offline.recordings.recording import unwrapped

RECORD, RANGES, MOST_M = 1313, 180, 30.0
"""Bytes of one record of this log, rays of its scans, and largest range."""
SECOND = 1_000_000_000


def recorded(path: Path) -> tuple[MappingDrive, Array]:
    """Return the drive, and its ranges (n, 180). The log has no times: a second is counted for each
    scan."""
    data = gzip.decompress(path.read_bytes())
    poses, ranges = [PlanarPose(0.0, 0.0, 0.0)], []
    for begin in range(0, len(data) - RECORD + 1, RECORD):
        record = data[begin : begin + RECORD]
        ranges.append(
            np.frombuffer(record, "<f4", RANGES, record.find(b"\x88\x88\xb4\0\0\0") + 6).astype(
                np.float64
            )
        )
        moved = np.frombuffer(record, "<f8", 3, record.find(b"CPose2D") + 8)
        poses.append(poses[-1].then(PlanarPose(*moved.tolist())))
    t_ns = SECOND * np.arange(1, len(ranges) + 1)
    x, y, yaw = np.array(poses[:-1]).T
    scans = [
        LaserScan(
            int(t),
            int(t),
            -pi / 2,
            pi / (RANGES - 1),
            0.0,
            1.0,
            0.02,
            MOST_M,
            0.0,
            0.0,
            tuple(r.tolist()),
        )
        for t, r in zip(t_ns, ranges)
    ]
    return MappingDrive(
        name=path.name, scans=scans, odometry=Odometry(t_ns, x, y, unwrapped(yaw))
    ), np.array(ranges)


def reference(path: Path, ranges: Array) -> list[tuple[int, float, float]]:
    """Return number of scan and place of GMapping's poses whose scan is in the drive."""
    found = []
    with gzip.open(path, "rt") as file:
        for words in (line.split() for line in file if line.startswith("FLASER")):
            theirs = np.minimum(np.array(words[2 : 2 + RANGES], dtype=np.float64), MOST_M)
            apart = np.abs(np.minimum(ranges, MOST_M) - theirs).max(axis=1)
            if apart.min() < 0.011:
                found.append((int(apart.argmin()), float(words[182]), float(words[183])))
    return found


def difference(
    drive: MappingDrive,
    times: list[int],
    poses: list[PlanarPose],
    wanted: list[tuple[int, float, float]],
) -> dict[str, float]:
    """Return the differences from the reference: keyframes, carried on by odometry to the instant
    of each pose."""
    assert drive.odometry is not None
    own = []
    for number, _, _ in wanted:
        t_ns = drive.scans[number].t_ns
        k = max(bisect_right(times, t_ns) - 1, 0)
        own.append(poses[k].then(drive.odometry.pose(times[k]).to(drive.odometry.pose(t_ns)))[:2])
    mine, theirs = np.array(own), np.array([w[1:] for w in wanted])
    shift, yaw = rigid(mine, theirs)
    c, s = np.cos(yaw), np.sin(yaw)
    off = np.hypot(*(mine @ np.array(((c, -s), (s, c))).T + shift - theirs).T)
    return {
        "rms_m": float(np.sqrt(np.mean(off**2))),
        "median_m": float(np.median(off)),
        "largest_m": float(off.max()),
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    drive, ranges = recorded(arguments.folder / "intel_raw__intel.rawlog")
    wanted = reference(arguments.folder / "ple__intel-corrected.log.gz", ranges)
    assert drive.odometry is not None
    every = [scan.t_ns for scan in drive.scans]
    odometry = difference(drive, every, [drive.odometry.pose(t) for t in every], wanted)
    began = time.process_time()
    mapped = build(drive, 0.05)
    used_s = time.process_time() - began
    front = difference(
        drive, [k.t_ns for k in mapped.frames], [k.pose for k in mapped.frames], wanted
    )
    whole = difference(drive, [k.t_ns for k in mapped.frames], mapped.poses, wanted)
    results = {
        "odometry": odometry, "scan_matching": front, "map": whole, "poses": len(wanted),
        "keyframes": len(mapped.frames), "closures": mapped.closures, "refused": mapped.refused,
        "path_m": mapped.frames[-1].path_m, "cpu_s": used_s,
    }  # fmt: skip
    print(
        json.dumps(results)
        if arguments.json
        else "\n".join(f"{name}: {value}" for name, value in results.items())
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
