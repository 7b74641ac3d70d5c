"""Reads and runs a policy: an ONNX file with its description, checked before it drives.

The network has one input of float32 (1 or any, features) and one output of float32 (1 or any,
commands). Its description is JSON in the metadata of the file, under the key ``vehicled``.
"""

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from vehicled.control.policy.features import FeatureError, FeatureVector
from vehicled.core.arrays import Array
from vehicled.core.errors import UserError
from vehicled.core.vehicle import Positive

ENDING = ".onnx"
MAX_BYTES = 64 * 1024 * 1024
METADATA_KEY = "vehicled"
COMMANDS = ("throttle", "steering", "wheel_angle_rad")
"""Outputs that a policy may have. Throttle is a fraction of full drive, negative for the brake;
steering a fraction of full steering; both may be left out but for one of the two that steer."""
LEAST_OPSET = 7
"""Older ones define operators otherwise."""


class PolicyError(UserError):
    """A file is no policy that can drive; the text names the file, the reason and the cure."""


class PolicyDescription(Struct, frozen=True, kw_only=True):
    """Meaning of the numbers of a network, and its origin."""

    features: list[str]
    """Names of its inputs, in order."""
    commands: list[str] = field(default_factory=lambda: ["throttle", "steering"])
    """Names of its outputs, in order."""
    look_ahead_m: Positive = 1.0
    """Distance ahead of the vehicle from which its reference point is searched."""
    predicts: bool = True
    """True if its features are those of the pose at which the command will act, false if of the
    estimated pose."""
    period_s: Annotated[float, Meta(ge=0.0)] = 0.0
    """Period of the control steps that it was trained on; 0 if unknown."""
    offset: list[float] = field(default_factory=list)
    """Subtracted from the features, (width,); empty for none."""
    scale: list[float] = field(default_factory=list)
    """Factor of the features after that, (width,); empty for none."""
    profile: str = ""
    """Vehicle that it was trained on."""
    expert: str = ""
    """Controller or person that it imitates."""
    data_sha256: str = ""
    software: dict[str, str] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    """Settings and results of the training."""


class Network:
    """A checked network, ready to run in one thread."""

    def __init__(
        self, data: bytes, name: str, session: Any, description: PolicyDescription | None
    ) -> None:
        """Use :func:`read_network`."""
        self.data, self.name, self.description = data, name, description
        self._run = session.run
        source, result = session.get_inputs()[0], session.get_outputs()[0]
        self.width: int | None = source.shape[1] if isinstance(source.shape[1], int) else None
        self.outputs: int | None = result.shape[1] if isinstance(result.shape[1], int) else None
        self._source, self._results = source.name, [result.name]

    def run(self, features: Any) -> Any:
        """Return the commands (1, outputs) of features (1, width), both float32."""
        return self._run(self._results, {self._source: features})[0]


def read_network(path: Path) -> Network:
    """Return the network of a file. Raises :class:`PolicyError`."""
    name = path.name
    try:
        if not path.is_file():
            raise PolicyError(
                f"{path}: no such file; a path in a profile is relative to the profile, one in "
                "a command to this folder"
            )
        if path.stat().st_size > MAX_BYTES:
            raise PolicyError(
                f"{name}: larger than {MAX_BYTES // 2**20} MiB; a policy is a small network"
            )
        data = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror or error}") from None
    # Newer versions of onnxruntime otherwise report their use to its maker, from a thread and a
    # file of their own.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    except ImportError as error:
        raise PolicyError(
            f'{name}: {error.name} is not installed; it comes with pip install "vehicled[policy]"'
        ) from None
    _check_weights(onnx, runtime, data, name)
    options = runtime.SessionOptions()
    # One thread and one order: the same sums in every run, and no threads beside those of the
    # daemon.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - its classes are many, and none is documented
        raise PolicyError(
            f"{name}: onnxruntime {runtime.__version__} cannot run it: {_first_line(error)}"
        ) from None
    _check_shape("inputs", session.get_inputs(), name)
    _check_shape("outputs", session.get_outputs(), name)
    return Network(data, name, session, _description(session, name))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def _check_weights(onnx: Any, runtime: Any, data: bytes, name: str) -> None:
    try:
        model = onnx.load_from_string(data)
    except Exception as error:  # noqa: BLE001 - protobuf raises its own
        raise PolicyError(f"{name}: this is no ONNX file: {_first_line(error)}") from None
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if not model.graph.node or not opset:
        raise PolicyError(
            f"{name}: this is no ONNX file: it holds no graph; write one with vehicled learn train"
        )
    newest = onnx.defs.onnx_opset_version()
    if not LEAST_OPSET <= opset <= newest:
        raise PolicyError(
            f"{name}: it uses opset {opset}; {LEAST_OPSET} to {newest} are known here: export it "
            f"again with one of these, or install a newer onnxruntime than {runtime.__version__}"
        )
    for weights in model.graph.initializer:
        if weights.data_location == onnx.TensorProto.EXTERNAL:
            raise PolicyError(
                f'{name}: the weights "{weights.name}" are in another file; export it as one file'
            )
        values = onnx.numpy_helper.to_array(weights)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise PolicyError(
                f'{name}: the weights "{weights.name}" are not all finite; train it again'
            )


def _check_shape(word: str, found: Sequence[Any], name: str) -> None:
    if len(found) != 1:
        raise PolicyError(
            f"{name}: it has {len(found)} {word} ({', '.join(each.name for each in found)}); a "
            "policy has one"
        )
    shape, kind = found[0].shape, found[0].type
    if kind != "tensor(float)" or len(shape) != 2 or (isinstance(shape[0], int) and shape[0] != 1):
        raise PolicyError(
            f'{name}: "{found[0].name}" is {kind} of shape {shape}; it must be tensor(float) '
            "of shape [1, n]"
        )


def _description(session: Any, name: str) -> PolicyDescription | None:
    text = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
    if text is None:
        return None
    try:
        return msgspec.convert(json.loads(text), PolicyDescription)
    except (msgspec.ValidationError, ValueError) as error:
        raise PolicyError(
            f'{name}: its metadata "{METADATA_KEY}" cannot be used: {error}'
        ) from None


class Interface(Struct, frozen=True):
    """Checked meaning of a network's inputs and outputs."""

    features: FeatureVector
    commands: tuple[str, ...]
    offset: Array | None
    """(1, width), as ``scale``; None if the network sees the features as they are."""
    scale: Array | float


def interface(network: Network, description: PolicyDescription) -> Interface:
    """Return what the numbers of a network mean. Raises :class:`PolicyError` if they do not fit."""
    name = network.name
    try:
        features = FeatureVector(description.features)
    except FeatureError as error:
        raise PolicyError(f"{name}: {error}") from None
    if network.width not in (None, features.width):
        raise PolicyError(
            f"{name}: it has {network.width} inputs, and its features are {features.width} numbers"
        )
    commands = tuple(description.commands)
    steers = [each for each in commands if each != "throttle"]
    if (
        not set(commands) <= set(COMMANDS)
        or len(set(commands)) != len(commands)
        or len(steers) != 1
    ):
        raise PolicyError(
            f"{name}: its commands are {', '.join(commands)}; give steering or "
            "wheel_angle_rad, and throttle or not"
        )
    if network.outputs not in (None, len(commands)):
        raise PolicyError(
            f"{name}: it has {network.outputs} outputs for {len(commands)} commands "
            f"({', '.join(commands)})"
        )
    columns = {
        "offset": description.offset or [0.0] * features.width,
        "scale": description.scale or [1.0] * features.width,
    }
    for key, values in columns.items():
        if len(values) != features.width or not np.isfinite(values).all():
            raise PolicyError(
                f"{name}: {key} in its metadata must be {features.width} finite numbers"
            )
    made = network.run(np.zeros((1, features.width), np.float32))
    if made.shape != (1, len(commands)):
        raise PolicyError(
            f"{name}: it returns an array of shape {list(made.shape)} for {len(commands)} commands"
        )
    if not description.offset and not description.scale:
        return Interface(features, commands, None, 1.0)
    return Interface(
        features, commands, *(np.array([values], dtype=np.float64) for values in columns.values())
    )
