"""Numeric fingerprint: shows if two machines compute bit-identical results.

The digest of a run is reproducible only with bit-identical arithmetic, but numpy picks kernels by
processor, BLAS by build and libm by C library. So the results of fixed operations are hashed;
digests are compared only if the hashes match.
"""

import hashlib
import math
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np

_N = 257
"""Array length, odd and prime: exercises the vector kernels and their scalar tails."""


def numeric_fingerprint() -> tuple[str, dict[str, str]]:
    """Return the first 16 hexadecimal digits of the hash, and the versions it depends on. Takes a
    few milliseconds."""
    digest = hashlib.sha256()
    for name, result in _results():
        digest.update(
            name.encode() + b"\0" + np.ascontiguousarray(result, dtype=np.float64).tobytes()
        )
    return digest.hexdigest()[:16], _dependencies()


def _results() -> Iterator[tuple[str, Any]]:
    # No random numbers, because their generator may change between versions.
    x = (np.arange(_N) * 0.6180339887498949) % 1.0 * 20.0 - 10.0
    for name in ("sin", "cos", "tan", "exp", "arctan", "tanh", "cbrt"):
        yield f"numpy.{name}", getattr(np, name)(x)
    yield "numpy.arctan2", np.arctan2(x, x[::-1])
    yield "numpy.hypot", np.hypot(x, x[::-1])
    yield "numpy.power", np.power(np.abs(x), 1.37)
    yield "numpy.cumsum", np.cumsum(x)
    yield "numpy.sum", np.sum(x)
    for n in (4, 5, 24, 67):
        a = np.cos(np.arange(n * n, dtype=np.float64).reshape(n, n) * 0.7)
        spd = a @ a.T + n * np.eye(n)
        yield f"matmul {n}", spd
        yield f"matvec {n}", a @ x[:n]
        yield f"dot {n}", x[:n] @ x[n : 2 * n]
        yield f"solve {n}", np.linalg.solve(a + n * np.eye(n), x[:n])
        yield f"cholesky {n}", np.linalg.cholesky(spd)
        yield f"inverse {n}", np.linalg.inv(spd)
    yield "einsum", np.einsum("ij,jk,lk->il", spd[:9, :9], a[:9, :9], spd[:9, :9])
    scalars = [float(v) for v in x]
    for function in (math.sin, math.cos, math.tan, math.exp, math.atan, math.tanh):
        yield f"math.{function.__name__}", [function(v) for v in scalars]
    yield "math.atan2", [math.atan2(v, w) for v, w in zip(scalars, reversed(scalars))]
    yield "math.hypot", [math.hypot(v, w) for v, w in zip(scalars, reversed(scalars))]
    yield "math.pow", [math.pow(abs(v), 1.37) for v in scalars]


def _dependencies() -> dict[str, str]:
    config: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment, unused-ignore]
    blas = config.get("Build Dependencies", {}).get("blas", {})
    simd = config.get("SIMD Extensions", {})
    libc = " ".join(part for part in platform.libc_ver() if part)
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "libm": libc or platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "simd": " ".join([*simd.get("baseline", []), *simd.get("found", [])]),
    }
