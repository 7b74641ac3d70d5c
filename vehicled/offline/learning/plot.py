"""Picture of a training: learning curve, and commands computed against commands of the data."""

from vehicled.offline.learning.dataset import Dataset
from vehicled.offline.learning.training import Trained
from vehicled.run.output import new_figure, save_figure


def plot_training(data: Dataset, trained: Trained, file: str) -> None:
    """Draw a training. Raises :class:`SetupError` if the file cannot be written."""
    commands = trained.description.commands
    figure = new_figure(4.2 * (1 + len(commands)), 3.8)
    axes = figure.subplots(1, 1 + len(commands))
    curve = axes[0]
    numbers = [epoch.number for epoch in trained.curve]
    curve.plot(numbers, [epoch.training for epoch in trained.curve], color="#1f5fa8", label="training")
    if trained.held_back:
        curve.plot(numbers, [epoch.validation for epoch in trained.curve], color="#c2571a", label="drives held back")
    curve.set(xlabel="epoch", ylabel="mean square error of the scaled commands", yscale="log")
    curve.legend(frameon=False)
    for index, (name, axis) in enumerate(zip(commands, axes[1:])):
        wanted, computed = data.commands[name][trained.judged], trained.computed[:, index]
        low, high = float(min(wanted.min(), computed.min())), float(max(wanted.max(), computed.max()))
        axis.plot([low, high], [low, high], color="#999999", linewidth=0.8)
        axis.plot(wanted, computed, ".", markersize=2.5, color="#1f5fa8", alpha=0.5)
        axis.set(xlabel=f"{name} of {trained.description.expert or 'the data'}", ylabel=f"{name} of the network")
        axis.set_title(
            f"{'drives held back' if trained.held_back else 'all drives'}, RMS error {trained.rms[name]:.3g}", fontsize=9
        )
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, file)
