"""Behaviour cloning: fits a dense network to the rows of a data set. Whole drives are held back to
judge it, never rows."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from vehicled import __version__
from vehicled.control.policy.network import COMMANDS, PolicyDescription
from vehicled.core.arrays import Array
from vehicled.offline.learning.dataset import Dataset
from vehicled.offline.learning.errors import LearningError
from vehicled.offline.learning.policy_file import Layer
from vehicled.run.output import new_figure, save_figure

LEAST_ROWS = 20
MAX_PARAMETERS = 10_000_000


class TrainingSpec(Struct, frozen=True, kw_only=True):
    """Settings of a training. The defaults are those of Zhang et al. 2023, but for the scaling."""

    hidden: Annotated[tuple[Annotated[int, Meta(ge=1, le=4096)], ...], Meta(max_length=8)] = (8, 16)
    """Sizes of the hidden layers, each with a ReLU."""
    commands: tuple[str, ...] = ("throttle", "steering")
    epochs: Annotated[int, Meta(ge=1, le=100_000)] = 100
    batch: Annotated[int, Meta(ge=1, le=100_000)] = 32
    rate: Annotated[float, Meta(gt=0.0, le=1.0)] = 1e-3
    """Learning rate of Adam."""
    scaling: bool = True
    """Scale features and commands to unit variance; the published networks did not. The file has
    the scaling in its weights."""
    validation: Annotated[float, Meta(ge=0.0, le=0.9)] = 0.2
    """Share of the drives that is held back to judge the network."""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 1
    library: Literal["sklearn", "torch", "numpy"] = "sklearn"
    """``numpy`` needs no further package."""


class TrainingEpoch(Struct, frozen=True):
    """Errors after one epoch: mean squares over the scaled commands."""

    number: int
    training: float
    validation: float
    """NaN if no drive is held back."""


class Trained(Struct, frozen=True, kw_only=True):
    """A trained network and how good it is."""

    layers: list[Layer]
    curve: list[TrainingEpoch]
    description: PolicyDescription
    held_back: list[str]
    """Names of the drives that it was judged by."""
    rms: dict[str, float]
    """Root mean square error by command, over the drives held back (over all, if none is)."""
    judged: Any
    """Rows of the data set that ``rms`` is over, (n,)."""
    computed: Array
    """Commands that it computes for these, (n, commands)."""


class Scaling(Struct, frozen=True):
    """Mean and spread of each column."""

    mean: Array
    spread: Array

    @classmethod
    def of(cls, values: Array, *, on: bool) -> "Scaling":
        """Return the scaling of (n, width) values to unit variance, or none."""
        width = values.shape[1]
        if not on:
            return cls(np.zeros(width), np.ones(width))
        spread = values.std(axis=0)
        # A column without variance stays as it is.
        return cls(values.mean(axis=0), np.where(spread > 1e-9, spread, 1.0))

    def apply(self, values: Array) -> Array:
        """Return scaled values."""
        return (values - self.mean) / self.spread


def train(
    data: Dataset, spec: TrainingSpec, progress: Callable[[TrainingEpoch], None] | None = None
) -> Trained:
    """Return a network that imitates the commands of the data. Raises :class:`LearningError`."""
    X, Y = data.features, np.column_stack([_command(data, name) for name in spec.commands])
    if len(X) < LEAST_ROWS:
        raise LearningError(
            f"the data have {len(X)} rows; at least {LEAST_ROWS} are needed: collect more drives"
        )
    if not (np.isfinite(X).all() and np.isfinite(Y).all()):
        raise LearningError("the data hold values that are not finite; make the data set again")
    sizes = [X.shape[1], *spec.hidden, Y.shape[1]]
    parameters = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    if parameters > MAX_PARAMETERS:
        raise LearningError(
            f"a network of {parameters} parameters is too large; at most {MAX_PARAMETERS} are "
            "allowed"
        )
    held = _held_back(data, spec)
    judged = np.isin(data.drive, held)
    inputs = Scaling.of(X[~judged], on=spec.scaling)
    outputs = Scaling.of(Y[~judged], on=spec.scaling)
    x, y = inputs.apply(X), outputs.apply(Y)
    epochs = _EPOCHS[spec.library](spec, x[~judged], y[~judged])
    curve: list[TrainingEpoch] = []
    weights: list[Layer] = []
    for number, (error, weights) in enumerate(epochs, 1):
        validation = (
            float(((forward(weights, x[judged]) - y[judged]) ** 2).mean())
            if judged.any()
            else float("nan")
        )
        curve.append(TrainingEpoch(number, error, validation))
        if progress is not None:
            progress(curve[-1])
    if not all(
        np.isfinite(layer.weights).all() and np.isfinite(layer.bias).all() for layer in weights
    ):
        raise LearningError(f"the training diverged; try a smaller --rate than {spec.rate:g}")
    layers = _folded(weights, inputs, outputs)
    # Without a drive held back it is judged by all rows.
    judged = judged if judged.any() else np.ones(len(X), bool)
    computed = forward(layers, X[judged])
    squares = ((computed - Y[judged]) ** 2).mean(axis=0)
    rms = {name: float(value) for name, value in zip(spec.commands, np.sqrt(squares))}
    return Trained(
        layers=layers,
        curve=curve,
        description=_described(data, spec, curve[-1], rms),
        held_back=[data.meaning.drives[index].name for index in held],
        rms=rms,
        judged=judged,
        computed=computed,
    )


def _command(data: Dataset, name: str) -> Array:
    if name not in COMMANDS:
        raise LearningError(f'unknown command "{name}" (known: {", ".join(COMMANDS)})')
    values = data.commands[name]
    if np.isnan(values).any():
        known = [each for each in COMMANDS if not np.isnan(data.commands[each]).any()]
        raise LearningError(
            f"the data do not hold {name} for every row, but {', '.join(known)}: choose "
            "--commands of these"
        )
    return values


def _held_back(data: Dataset, spec: TrainingSpec) -> list[int]:
    """Return the drives that judge, chosen by the seed; never all, and none of one drive alone."""
    drives = np.unique(data.drive)
    count = min(round(spec.validation * len(drives)), len(drives) - 1)
    if count == 0 and spec.validation > 0.0 and len(drives) > 1:
        count = 1
    return sorted(
        int(index) for index in np.random.default_rng(spec.seed).permutation(drives)[:count]
    )


def _described(
    data: Dataset, spec: TrainingSpec, last: TrainingEpoch, rms: dict[str, float]
) -> PolicyDescription:
    meaning = data.meaning
    experts = sorted({drive.expert or drive.driver for drive in meaning.drives} - {""})
    library = "scikit-learn" if spec.library == "sklearn" else spec.library
    return PolicyDescription(
        features=meaning.features,
        commands=list(spec.commands),
        look_ahead_m=meaning.look_ahead_m,
        predicts=meaning.predicts,
        period_s=meaning.period_s,
        profile=", ".join(sorted({drive.profile for drive in meaning.drives} - {""})),
        expert=", ".join(experts),
        data_sha256=data.digest,
        software={"vehicled": __version__, "numpy": np.__version__, spec.library: version(library)},
        training={
            "hidden": list(spec.hidden), "epochs": spec.epochs, "batch": spec.batch,
            "rate": spec.rate, "seed": spec.seed, "scaling": spec.scaling,
            "drives": len(meaning.drives), "rows": len(data), "error": last.training,
            "held_back_error": last.validation if last.validation == last.validation else None,
            "rms": rms,
        },
    )  # fmt: skip


def forward(layers: Sequence[Layer], x: Array) -> Array:
    """Return the commands (n, outputs) of features (n, width)."""
    for layer in layers:
        x = x @ layer.weights + layer.bias
        if layer.activation == "relu":
            x = np.maximum(x, 0.0)
    return x


def _folded(layers: list[Layer], inputs: Scaling, outputs: Scaling) -> list[Layer]:
    """Return the network for unscaled features and commands: the scaling goes into the first and
    the last layer."""
    first = layers[0]
    weights = first.weights / inputs.spread[:, None]
    found = [Layer(weights, first.bias - inputs.mean @ weights, first.activation), *layers[1:]]
    last = found[-1]
    found[-1] = Layer(
        last.weights * outputs.spread, last.bias * outputs.spread + outputs.mean, last.activation
    )
    return found


def _activations(count: int) -> list[str]:
    return ["relu"] * (count - 1) + ["none"]


def _sklearn_epochs(spec: TrainingSpec, x: Array, y: Array) -> Iterator[tuple[float, list[Layer]]]:
    """Yield the training error and the layers after each epoch."""
    try:
        networks = import_module("sklearn.neural_network")
    except ImportError:
        raise LearningError('training needs scikit-learn: pip install "vehicled[learn]"') from None
    model = networks.MLPRegressor(
        hidden_layer_sizes=spec.hidden, activation="relu", solver="adam", alpha=0.0,
        batch_size=min(spec.batch, len(x)), learning_rate_init=spec.rate, random_state=spec.seed,
    )  # fmt: skip
    # The regressor wants a column for one command as (n,).
    target = y[:, 0] if y.shape[1] == 1 else y
    for _ in range(spec.epochs):
        with warnings.catch_warnings():
            # A diverging training overflows; its weights are judged afterwards.
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                model.partial_fit(x, target)
            except ValueError as error:
                raise LearningError(
                    f"the training diverged ({error}); try a smaller --rate than {spec.rate:g}"
                ) from None
        pairs = zip(model.coefs_, model.intercepts_, _activations(len(model.coefs_)))
        # Its loss is half the mean square.
        yield (
            2.0 * float(model.loss_),
            [Layer(weights.copy(), bias.copy(), name) for weights, bias, name in pairs],
        )


def _torch_epochs(spec: TrainingSpec, x: Array, y: Array) -> Iterator[tuple[float, list[Layer]]]:
    """Yield the training error and the layers after each epoch."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise LearningError("--library torch needs PyTorch: pip install torch") from None
    torch.manual_seed(spec.seed)
    torch.use_deterministic_algorithms(True)
    sizes = [x.shape[1], *spec.hidden, y.shape[1]]
    dense = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    steps = [each for layer in dense for each in (layer, torch.nn.ReLU())][:-1]
    model = torch.nn.Sequential(*steps)
    optimiser = torch.optim.Adam(model.parameters(), lr=spec.rate)
    inputs, targets = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    for _ in range(spec.epochs):
        order, total = torch.randperm(len(inputs)), 0.0
        for rows in order.split(spec.batch):
            optimiser.zero_grad()
            loss = ((model(inputs[rows]) - targets[rows]) ** 2).mean()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        layers = [
            (
                layer.weight.detach().numpy().T.astype(float),
                layer.bias.detach().numpy().astype(float),
            )
            for layer in dense
        ]
        yield (
            total / len(inputs),
            [Layer(w, b, name) for (w, b), name in zip(layers, _activations(len(layers)))],
        )


def _numpy_epochs(spec: TrainingSpec, x: Array, y: Array) -> Iterator[tuple[float, list[Layer]]]:
    """Yield the training error and the layers after each epoch. Adam by Kingma & Ba 2015, first
    weights by Glorot & Bengio 2010."""
    chance = np.random.default_rng(spec.seed)
    sizes = list(itertools.pairwise([x.shape[1], *spec.hidden, y.shape[1]]))
    weights = [chance.uniform(-1.0, 1.0, pair) * np.sqrt(6.0 / sum(pair)) for pair in sizes]
    values = [*weights, *(np.zeros(width) for _, width in sizes)]
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    depth, step = len(sizes), 0
    for _ in range(spec.epochs):
        total = 0.0
        order = chance.permutation(len(x))
        for first in range(0, len(x), spec.batch):
            rows = order[first : first + spec.batch]
            hidden = [x[rows]]
            for k in range(depth):
                linear = hidden[-1] @ values[k] + values[depth + k]
                hidden.append(np.maximum(linear, 0.0) if k < depth - 1 else linear)
            error = hidden[-1] - y[rows]
            total += float((error**2).mean()) * len(rows)
            gradient, found = 2.0 * error / error.size, [np.empty(0)] * len(values)
            for k in reversed(range(depth)):
                found[k], found[depth + k] = hidden[k].T @ gradient, gradient.sum(axis=0)
                gradient = (gradient @ values[k].T) * (hidden[k] > 0.0)
            step += 1
            rate = spec.rate * np.sqrt(1.0 - 0.999**step) / (1.0 - 0.9**step)
            for value, mean, square, slope in zip(values, means, squares, found, strict=True):
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope * slope - square)
                value -= rate * mean / (np.sqrt(square) + 1e-8)
        names = _activations(depth)
        yield (
            total / len(x),
            [Layer(values[k].copy(), values[depth + k].copy(), names[k]) for k in range(depth)],
        )


_EPOCHS = {"sklearn": _sklearn_epochs, "torch": _torch_epochs, "numpy": _numpy_epochs}


def plot_training(data: Dataset, trained: Trained, file: str) -> None:
    """Draw a training. Raises :class:`SetupError` if the file cannot be written."""
    commands = trained.description.commands
    figure = new_figure(4.2 * (1 + len(commands)), 3.8)
    axes = figure.subplots(1, 1 + len(commands))
    curve = axes[0]
    numbers = [epoch.number for epoch in trained.curve]
    curve.plot(
        numbers, [epoch.training for epoch in trained.curve], color="#1f5fa8", label="training"
    )
    if trained.held_back:
        curve.plot(
            numbers,
            [epoch.validation for epoch in trained.curve],
            color="#c2571a",
            label="drives held back",
        )
    curve.set(xlabel="epoch", ylabel="mean square error of the scaled commands", yscale="log")
    curve.legend(frameon=False)
    for index, (name, axis) in enumerate(zip(commands, axes[1:])):
        wanted, computed = data.commands[name][trained.judged], trained.computed[:, index]
        low = float(min(wanted.min(), computed.min()))
        high = float(max(wanted.max(), computed.max()))
        axis.plot([low, high], [low, high], color="#999999", linewidth=0.8)
        axis.plot(wanted, computed, ".", markersize=2.5, color="#1f5fa8", alpha=0.5)
        axis.set(
            xlabel=f"{name} of {trained.description.expert or 'the data'}",
            ylabel=f"{name} of the network",
        )
        axis.set_title(
            (
                f"{'drives held back' if trained.held_back else 'all drives'}, RMS error "
                f"{trained.rms[name]:.3g}"
            ),
            fontsize=9,
        )
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, file)
