"""Learning: data sets, training, and the files between them."""

import csv
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.policy_bench import layers
from vehicled.control.policy.controller import policy_class
from vehicled.control.policy.features import PUBLISHED
from vehicled.control.policy.network import read_network
from vehicled.offline.learning.dataset import (
    Dataset,
    DriveNote,
    Meaning,
    joined,
    load,
    read_drives,
    save,
)
from vehicled.offline.learning.errors import LearningError
from vehicled.offline.learning.policy_file import write_policy
from vehicled.offline.learning.training import TrainingSpec, train

for module in ("onnx", "sklearn", "pyarrow"):
    pytest.importorskip(module)

GAIN = np.array([[0.37, 0.005, 0.15, 1.02], [0.02, 0.73, 0.78, -0.01]])


def made(drives: int = 5, rows: int = 200, seed: int = 3) -> Dataset:
    """Return rows whose commands are linear in the features."""
    draws = np.random.default_rng(seed)
    features = draws.normal(size=(drives * rows, 4)) * [0.5, 0.2, 0.3, 0.2] + [1.0, 0.0, 0.0, 0.1]
    throttle, steering = GAIN @ features.T
    notes = [
        DriveNote(name=f"drive{k}", rows=rows, profile="art", course="circle", driver="linear")
        for k in range(drives)
    ]
    return Dataset(
        Meaning(drives=notes), np.repeat(np.arange(drives), rows),
        np.tile(0.1 * np.arange(rows), drives), features,
        {"throttle": throttle, "steering": steering, "wheel_angle_rad": 0.4 * steering},
    )  # fmt: skip


def test_a_network_learns_a_known_law_on_drives_that_it_has_not_seen() -> None:
    data = made()
    trained = train(data, TrainingSpec(epochs=40))
    assert len(trained.held_back) == 1
    assert trained.rms["steering"] < 0.12 * data.commands["steering"].std()
    assert trained.rms["throttle"] < 0.12 * data.commands["throttle"].std()
    assert trained.curve[-1].training < 0.05 * trained.curve[0].training


def test_whole_drives_are_held_back() -> None:
    data = made()
    trained = train(data, TrainingSpec(epochs=1, validation=0.4))
    held = {data.meaning.drives[index].name for index in np.unique(data.drive[trained.judged])}
    assert held == set(trained.held_back)
    assert len(held) == 2


def test_the_same_seed_gives_the_same_file_and_another_seed_another(tmp_path: Path) -> None:
    data = made()
    files = []
    for number, seed in enumerate((7, 7, 8)):
        trained = train(data, TrainingSpec(epochs=3, seed=seed))
        file = tmp_path / f"{number}.onnx"
        write_policy(file, trained.layers, trained.description)
        files.append(file.read_bytes())
    assert files[0] == files[1] != files[2]


def test_the_file_computes_what_was_trained_and_says_where_it_comes_from(tmp_path: Path) -> None:
    data = made()
    trained = train(data, TrainingSpec(epochs=3))
    file = tmp_path / "policy.onnx"
    write_policy(file, trained.layers, trained.description)
    network = read_network(file)
    rows = data.features[trained.judged][:50]
    computed = [network.run(row[None].astype(np.float32))[0] for row in rows]
    assert np.allclose(computed, trained.computed[:50], atol=1e-5)
    about = network.description
    assert about is not None
    assert about.features == list(PUBLISHED)
    assert (about.profile, about.expert, about.data_sha256) == ("art", "linear", data.digest)
    assert about.software["sklearn"]
    assert about.training["rows"] == 1000
    policy_class(file)


def test_without_scaling_the_published_network_is_trained_as_published() -> None:
    trained = train(made(), TrainingSpec(epochs=30, scaling=False))
    assert [layer.weights.shape for layer in trained.layers] == [(4, 8), (8, 16), (16, 2)]
    assert trained.rms["steering"] < 0.1


@pytest.mark.parametrize(
    ("change", "spec", "words"),
    [
        ({"rows": 2, "drives": 2}, {}, "at least 20"),
        ({}, {"commands": ("throttle", "brake")}, 'unknown command "brake"'),
        ({}, {"hidden": (4096, 4096)}, "too large"),
        ({}, {"library": "torch"}, ""),
    ],
)
def test_what_cannot_be_learnt_is_said(
    change: dict[str, Any], spec: dict[str, Any], words: str
) -> None:
    if spec.get("library") == "torch":
        try:
            import_module("torch")
        except ImportError:
            words = "pip install torch"
        else:
            assert train(made(), TrainingSpec(epochs=30, **spec)).rms["steering"] < 0.1
            return
    with pytest.raises(LearningError, match=words):
        train(made(**change), TrainingSpec(**({"epochs": 2} | spec)))


def test_the_training_without_a_library_learns_as_well_as_the_one_with() -> None:
    alone, library = (
        train(made(), TrainingSpec(epochs=30, library=name)).rms["steering"]
        for name in ("numpy", "sklearn")
    )
    assert alone < 1.3 * library
    spec = TrainingSpec(epochs=3, library="numpy")
    first, again = (train(made(), spec).layers for _ in range(2))
    assert all(
        (one.weights == other.weights).all() for one, other in zip(first, again, strict=True)
    )


def test_what_a_training_with_a_large_rate_returns_is_finite() -> None:
    spec = TrainingSpec(rate=1.0, hidden=(64,) * 6, scaling=False, epochs=20)
    with suppress(LearningError):
        assert all(np.isfinite(layer.weights).all() for layer in train(made(), spec).layers)


def test_commands_that_the_data_lack_are_named() -> None:
    data = made()
    data.commands["wheel_angle_rad"][5] = np.nan
    with pytest.raises(LearningError, match="throttle, steering"):
        train(data, TrainingSpec(commands=("throttle", "wheel_angle_rad"), epochs=1))


def test_values_that_are_not_finite_are_refused() -> None:
    data = made()
    data.features[3, 1] = np.inf
    with pytest.raises(LearningError, match="not finite"):
        train(data, TrainingSpec(epochs=1))


def test_a_data_set_survives_its_file(tmp_path: Path) -> None:
    data = made()
    save(data, tmp_path / "data.parquet")
    again = load(tmp_path / "data.parquet")
    assert again.meaning == data.meaning
    assert again.digest == data.digest
    assert np.array_equal(again.drive, data.drive)


def test_data_of_other_meaning_are_not_joined() -> None:
    data = made()
    other = msgspec.structs.replace(
        data, meaning=msgspec.structs.replace(data.meaning, predicts=False)
    )
    with pytest.raises(LearningError, match="differ in predicts"):
        joined([data, other])
    both = joined([data, made(seed=4)])
    assert len(both) == 2000
    assert len(np.unique(both.drive)) == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "has no column reference_ahead_m"),
        (
            "e_ahead_m,e_left_m,e_heading_rad,e_speed_mps,throttle_cmd\n1,2,3,4,5\n",
            "steering or wheel_angle_rad",
        ),
        (
            "e_ahead_m,e_left_m,e_heading_rad,e_speed_mps,throttle_cmd,steering_cmd\n1,2,3,4,5\n",
            "line 2",
        ),
        (
            "e_ahead_m,e_left_m,e_heading_rad,e_speed_mps,throttle_cmd,steering_cmd\n1,2,3,4,5,x\n",
            "line 2",
        ),
        (
            "e_ahead_m,e_left_m,e_heading_rad,e_speed_mps,throttle_cmd,steering_cmd\nnan,2,3,4,5,6\n",
            "no row of a drive",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_place(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "drive.csv").write_text(text)
    with pytest.raises(LearningError, match=r"drive\.csv") as refused:
        read_drives([str(tmp_path / "drive.csv")], Meaning())
    assert words in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"PAR1 no", b"\x00" * 100])
def test_a_file_that_is_no_data_set_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(data)
    with pytest.raises(LearningError, match="no data set"):
        load(tmp_path / "data.parquet")


def test_a_missing_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LearningError, match="no such file"):
        read_drives([str(tmp_path / "nothing")], Meaning())
    with pytest.raises(LearningError, match="holds no log"):
        read_drives([str(tmp_path)], Meaning())


@pytest.mark.parametrize("kind", ["mpc", "manual"])
def test_the_recorded_training_data_are_read_and_learnt(kind: str, shared_data: Path) -> None:
    recorded = shared_data / "nn_training_2023" / kind
    if not recorded.is_dir():
        pytest.skip("the recorded training data are not here")
    data, notes = read_drives([str(recorded)], Meaning(predicts=False))
    assert not notes
    assert len(data.meaning.drives) >= 4
    with next(recorded.glob("*.csv")).open() as file:
        columns = next(csv.reader(file))
    assert "e_ahead_m" in columns
    trained = train(data, TrainingSpec(epochs=30))
    spread = {name: data.commands[name][trained.judged].std() for name in trained.rms}
    # A person's key strokes are learnt less well than a law.
    assert trained.rms["steering"] < (0.5 if kind == "mpc" else 1.0) * max(spread["steering"], 0.2)


def test_the_parquet_columns_have_the_names_of_the_features(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow.parquet")
    save(made(), tmp_path / "data.parquet")
    names = arrow.read_table(tmp_path / "data.parquet").column_names
    assert names == ["drive", "t_s", *PUBLISHED, "throttle", "steering", "wheel_angle_rad"]


def test_an_activation_is_written(tmp_path: Path) -> None:
    network = [layer._replace(activation="tanh") for layer in layers(4, 8, 2)]
    from vehicled.control.policy.network import PolicyDescription

    write_policy(tmp_path / "tanh.onnx", network, PolicyDescription(features=list(PUBLISHED)))
    x = np.array([[0.1, -0.2, 0.3, 0.4]], np.float32)
    wanted = np.tanh(
        np.tanh(x @ network[0].weights + network[0].bias) @ network[1].weights + network[1].bias
    )
    assert np.allclose(read_network(tmp_path / "tanh.onnx").run(x), wanted, atol=1e-6)
