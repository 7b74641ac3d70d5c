"""Policies for tests: small networks as ONNX files."""

from pathlib import Path
from typing import Any

import numpy as np

from vehicled.control.linear import LinearParams
from vehicled.control.policy.features import PUBLISHED
from vehicled.control.policy.network import PolicyDescription
from vehicled.offline.learning.policy_file import Layer, onnx_bytes


def layers(*sizes: int, seed: int = 1) -> list[Layer]:
    """Return a random dense network with ReLU between the layers of these sizes."""
    draws = np.random.default_rng(seed)
    last = len(sizes) - 2
    return [
        Layer(
            0.1 * draws.normal(size=(a, b)),
            0.1 * draws.normal(size=b),
            "none" if k == last else "relu",
        )
        for k, (a, b) in enumerate(zip(sizes, sizes[1:]))  # noqa: RUF007 - with its number
    ]


def linear_law() -> list[Layer]:
    """Return the published linear law as a network of one layer."""
    law = LinearParams()
    return [Layer(np.array([law.throttle, law.steering]).T, np.zeros(2), "none")]


def policy_bytes(network: list[Layer] | None = None, **description: Any) -> bytes:
    """Return the file of a network; without one, of the linear law on the published error state."""
    fields: dict[str, Any] = {"features": list(PUBLISHED), "predicts": False} | description
    return onnx_bytes(network or linear_law(), PolicyDescription(**fields))


def write_policy(file: Path, network: list[Layer] | None = None, **description: Any) -> Path:
    """Write :func:`policy_bytes`, and return the file."""
    file.write_bytes(policy_bytes(network, **description))
    return file
