"""The filter that a profile drives with, beside another: cost in lockstep, and laps on messages and
on wires.

    python bench/default_filter.py [--profile NAME]... [--other ekf4] [--seconds 60]
        [--rounds 3] [--json]

For each profile that names ``planar``: the same drive with it and with ``--other``, in turns, on
messages and, where the profile names drivers, on wires. Cost is the CPU time of the process for one
drive, planar over the other, as the median of the rounds.
"""

import argparse
import json
import time
from contextlib import closing
from statistics import median
from typing import Any, Literal

import vehicled as v
from vehicled.core import shipped
from vehicled.profile import load
from vehicled.run.terminal import Progress, print_table

LINKS: tuple[Literal["messages"], Literal["wires"]] = ("messages", "wires")
FIGURES = {
    "cross_track_m": "cross-track m",
    "estimate_position_m": "position m",
    "estimate_speed_mps": "speed m/s",
}
"""Figure of a result: heading of its column, for RMS and maximum."""


def driven(
    profile: str, estimator: str, link: Literal["messages", "wires"], seconds: float
) -> tuple[float, dict[str, Any]]:
    """Drive; return CPU seconds of this process and the figures."""
    begun = time.process_time()
    with closing(v.simulate(profile, estimator=estimator, link=link, duration_s=seconds)) as run:
        used, result = time.process_time() - begun, run.metrics
    figures: dict[str, Any] = {
        name: {"rms": each.rms, "max": each.max}
        for name in FIGURES
        for each in [getattr(result, name)]
    }
    figures["end"] = result.why or "driven"
    return used, figures


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        help="repeatable (default: all that drive with planar)",
    )
    parser.add_argument("--other", default="ekf4")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shown = sorted(path.stem for path in shipped.folder("profiles").glob("*.toml"))
    profiles = arguments.profile or [
        name for name in shown if load(name).profile.estimator.name == "planar"
    ]
    progress, results, rows = Progress(), [], []
    for profile in profiles:
        wired = any(
            device.driver.name != "msglink" for device in load(profile).profile.devices.values()
        )
        for link in LINKS[: 1 + wired]:
            ratios, figures = [], {}
            for number in range(arguments.rounds):
                progress.show(f"{profile}, {link}: round {number + 1} of {arguments.rounds}")
                used = {}
                for estimator in ("planar", arguments.other):
                    used[estimator], figures[estimator] = driven(
                        profile, estimator, link, arguments.seconds
                    )
                ratios.append(used["planar"] / used[arguments.other])
            cost = median(ratios)
            results.append({"profile": profile, "link": link, "cost": cost, "drives": figures})
            for estimator, each in figures.items():
                cells = [f"{each[name][part]:.3f}" for name in FIGURES for part in ("rms", "max")]
                rows.append(
                    (
                        profile,
                        link,
                        estimator,
                        f"{cost:.2f}" if estimator == "planar" else "1",
                        *cells,
                        each["end"],
                    )
                )
    progress.close()
    if arguments.json:
        print(json.dumps({f"{each['profile']}_{each['link']}": each for each in results}))
        return 0
    heads = [f"{text}, {part}" for text in FIGURES.values() for part in ("RMS", "max")]
    print_table(
        f"planar beside {arguments.other}",
        ("profile", "link", "filter", "CPU", *heads, "end"),
        rows,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
