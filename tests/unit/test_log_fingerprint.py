"""The numeric fingerprint: stable on one machine, sensitive to the last bit."""

import subprocess
import sys

import numpy as np

from vehicled.log.fingerprint import numeric_fingerprint


def test_same_in_another_process_and_names_its_causes():
    digest, causes = numeric_fingerprint()
    code = (
        "from vehicled.log.fingerprint import numeric_fingerprint; print(numeric_fingerprint()[0])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == digest
    )
    assert len(digest) == 16
    assert int(digest, 16) >= 0
    assert causes["numpy"] == np.__version__
    assert {"machine", "libm", "python", "blas", "simd"} <= set(causes)


def test_one_bit_in_one_result_changes_it(monkeypatch):
    digest, _ = numeric_fingerprint()
    solve = np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda a, b: np.nextafter(solve(a, b), np.inf))
    assert numeric_fingerprint()[0] != digest
