"""Writes policies: a network as an ONNX file with its description."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from vehicled.control.policy.network import METADATA_KEY, PolicyDescription
from vehicled.core.arrays import Array
from vehicled.offline.learning.errors import LearningError

OPSET = 17
IR_VERSION = 8
"""Versions that onnxruntime has known since 2022."""
ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh", "none": ""}


class Layer(NamedTuple):
    """A dense layer: activation(x weights + bias)."""

    weights: Array
    """(inputs, outputs)."""
    bias: Array
    """(outputs,)."""
    activation: str
    """``relu``, ``tanh`` or ``none``."""


def onnx_bytes(layers: Sequence[Layer], description: PolicyDescription) -> bytes:
    """Return the ONNX file of a dense network. Raises :class:`LearningError`."""
    try:
        onnx: Any = import_module("onnx")
    except ImportError:
        raise LearningError('writing a policy needs onnx: pip install "vehicled[learn]"') from None
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes, weights, source = [], [], "features"
    for number, layer in enumerate(layers):
        weights += [
            onnx.numpy_helper.from_array(np.asarray(values, np.float32), f"{name}{number}")
            for name, values in (("weights", layer.weights), ("bias", layer.bias))
        ]
        operator = ACTIVATIONS[layer.activation]
        result = "command" if number == len(layers) - 1 else f"layer{number}"
        sums = f"sum{number}" if operator else result
        nodes.append(
            helper.make_node("Gemm", [source, f"weights{number}", f"bias{number}"], [sums])
        )
        if operator:
            nodes.append(helper.make_node(operator, [sums], [result]))
        source = result
    graph = helper.make_graph(
        nodes, "policy",
        [helper.make_tensor_value_info("features", kind, ["batch", len(layers[0].weights)])],
        [helper.make_tensor_value_info("command", kind, ["batch", len(layers[-1].bias)])],
        weights,
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="vehicled"
    )
    model.ir_version = IR_VERSION
    helper.set_model_props(model, {METADATA_KEY: msgspec.json.encode(description).decode()})
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def write_policy(file: Path, layers: Sequence[Layer], description: PolicyDescription) -> None:
    """Write the ONNX file of a dense network. Raises :class:`LearningError`."""
    data = onnx_bytes(layers, description)
    try:
        file.write_bytes(data)
    except OSError as error:
        raise LearningError(
            f"{file}: cannot be written: {error.strerror or error}; choose another file"
        ) from None
