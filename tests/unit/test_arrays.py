"""Arithmetic of arrays that has the same bits on every processor."""

import math

import numpy as np
import pytest

from vehicled.core.arrays import arctan2, exp, hypotenuse, log, matmul
from vehicled.estimation.congruence import Congruence


@pytest.mark.parametrize(
    ("n", "k", "m"), [(1, 1, 1), (2, 15, 2), (4, 4, 4), (15, 2, 15), (3, 40, 1), (22, 22, 22)]
)
def test_a_product_adds_in_the_order_of_the_inner_index(n: int, k: int, m: int) -> None:
    chance = np.random.default_rng(n + k + m)
    a, b = chance.normal(size=(n, k)), chance.normal(size=(k, m))
    found = np.zeros((n, m))
    for row, column in np.ndindex(n, m):
        for inner in range(k):
            found[row, column] += a[row, inner] * b[inner, column]
    if m > 1:
        np.testing.assert_array_equal(matmul(a, b), found)
        np.testing.assert_array_equal(matmul(a[0], b), found[0])
        np.testing.assert_array_equal(matmul(np.asfortranarray(a), b), found)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-12, atol=1e-12)


def test_functions_are_those_of_the_c_library_in_any_shape() -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 3, 50))
    np.testing.assert_array_equal(
        arctan2(y, x)[1], [math.atan2(b, a) for a, b in zip(x[1].tolist(), y[1].tolist())]
    )
    np.testing.assert_array_equal(arctan2(y, 1.0)[2], [math.atan2(b, 1.0) for b in y[2].tolist()])
    np.testing.assert_array_equal(exp(x)[0], [math.exp(a) for a in x[0].tolist()])
    np.testing.assert_array_equal(log(x * x)[0], [math.log(a * a) for a in x[0].tolist()])
    np.testing.assert_allclose(hypotenuse(x, y), np.hypot(x, y), rtol=1e-15)


def test_a_congruence_is_the_product_with_the_transition_and_its_transpose() -> None:
    chance = np.random.default_rng(2)
    entries = {0: (0, 1, 4), 2: (2,), 3: (1, 2, 3, 4)}
    F = np.eye(6)
    for row, columns in entries.items():
        F[row] = 0.0
        F[row, list(columns)] = chance.normal(size=len(columns))
    half = chance.normal(size=(6, 6))
    P = half @ half.T
    found = Congruence(6, entries)(F, P)
    np.testing.assert_allclose(found, F @ P @ F.T, rtol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(
        found[np.ix_((1, 4, 5), (1, 4, 5))], P[np.ix_((1, 4, 5), (1, 4, 5))]
    )
