"""Picture of a check of a reference system: the drives with their rests, and what each check shows against the claim."""

from collections.abc import Sequence
from math import degrees, isfinite
from pathlib import Path

from vehicled.offline.sensors.truth import QUANTITIES, Series, TruthCheck, rests_of
from vehicled.run.output import new_figure, save_figure

_SHOWN, _CLAIM, _DECLARED = "#2e86ab", "#d1495b", "#3a7d44"


def draw(file: Path, runs: Sequence[Series], found: TruthCheck) -> None:
    """Write the picture. Raises SetupError."""
    figure = new_figure(11.0, 4.8)
    grid = figure.add_gridspec(3, 2, width_ratios=(1.1, 1.0))
    area = figure.add_subplot(grid[:, 0])
    for run in runs:
        area.plot(run.x_m, run.y_m, lw=0.9, color="#888888")
        for a, b in rests_of(run):
            area.plot(run.x_m[a:b].mean(), run.y_m[a:b].mean(), "o", ms=7, mfc="none", color=_CLAIM)
    area.set(xlabel="east, m", ylabel="north, m", title="Rear axle by the reference; circles: rests")
    area.set_aspect("equal", adjustable="datalim")
    for row, (quantity, unit) in enumerate(QUANTITIES.items()):
        part = figure.add_subplot(grid[row, 1])
        scale, shown_in = (degrees(1.0), "degrees") if unit == "rad" else (1.0, unit)
        mine = [each for each in found.evidence if each.quantity == quantity]
        for k, each in enumerate(mine):
            part.plot(scale * each.sigma, k, "o", color=_SHOWN, mfc=_SHOWN if each.proves else "none")
            if each.proves and isfinite(each.upper):
                part.plot([scale * each.sigma, scale * each.upper], [k, k], color=_SHOWN, lw=1.4)
        for value, colour, label in ((found.declared[quantity], _DECLARED, "declared"), (found.claims[quantity], _CLAIM, "claim")):
            if isfinite(value):
                part.axvline(scale * value, color=colour, lw=1.2, ls="--", label=label)
        part.set_yticks(range(len(mine)), [each.check for each in mine], fontsize=8)
        part.set_ylim(len(mine) - 0.5, -0.5)
        part.set_xlim(left=0.0)
        part.margins(x=0.1)
        claim = scale * found.claims[quantity]
        result = f"{claim:.3g} may be claimed" if isfinite(claim) else "unknown"
        part.set_title(f"{quantity}, {shown_in}: {result}", fontsize=10)
        if part.get_legend_handles_labels()[0]:
            part.legend(fontsize=7, loc="best")
    figure.supxlabel("points: shown by a check, with the upper 95 % limit; hollow: the check sees a part of the errors", fontsize=8)
    save_figure(figure, file)
