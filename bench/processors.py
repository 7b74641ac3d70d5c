"""Digests of short drives as other processors would give them, and the mathematical functions that
differ.

    python bench/processors.py [--profiles art,hmmwv] [--seconds 20] [--arguments 1000000] [--json]

Each drive runs in processes of its own, in which BLAS, numpy or the C library use the kernels of
another x86-64 processor: BLAS by ``OPENBLAS_CORETYPE``, numpy by ``NPY_DISABLE_CPU_FEATURES``,
glibc by ``GLIBC_TUNABLES``. This computer must be able to run those kernels; what it lacks is left
out. The functions are those of :mod:`math`, with and without fused multiply-add.

``--digest PROFILE SECONDS`` prints one digest, to compare it with that of another computer, such as
one with 64-bit ARM.
"""

import argparse
import json
import math
import os
import platform
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import vehicled as v
from vehicled.log.fingerprint import numeric_fingerprint
from vehicled.run.terminal import print_table

ROOT = Path(__file__).parents[1]
SEED = 7
HASWELL = ("AVX", "F16C", "FMA3", "AVX2", "X86_V3")
PROCESSORS: dict[str, tuple[str, ...]] = {
    "Nehalem": (),
    "Sandybridge": ("AVX",),
    "Haswell": HASWELL,
    "SkylakeX": (*HASWELL, "AVX512F", "AVX512CD", "AVX512_SKX", "X86_V4"),
}
"""Families by the names that OpenBLAS has for them, with the groups of instructions that numpy
would use there."""
PROFILES = sorted({path.stem for path in (ROOT / "profiles").glob("*.toml")} - {"f1tenth_lidar"})
"""The shipped vehicles without the one that needs a map."""
NO_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4"}
"""glibc without fused multiply-add, as on processors before 2013."""


def processors() -> dict[str, dict[str, str]]:
    """Return the environment of each processor whose kernels this one can run. The first one is
    this computer itself."""
    numpy: Any = import_module("numpy._core._multiarray_umath")
    here = {feature for feature, present in numpy.__cpu_features__.items() if present}
    known = set(numpy.__cpu_features__)
    found: dict[str, dict[str, str]] = {"this one": {}}
    for name, groups in PROCESSORS.items():
        if platform.machine() == "x86_64" and here.issuperset(known.intersection(groups)):
            without = [
                group for group in numpy.__cpu_dispatch__ if group in here and group not in groups
            ]
            found[name] = {"OPENBLAS_CORETYPE": name, "NPY_DISABLE_CPU_FEATURES": " ".join(without)}
    return found


def child(environment: Mapping[str, str], *arguments: str) -> str:
    """Return what this script prints in another process with these additions to the environment."""
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def drive(profile: str, seconds: float) -> str:
    """Return the numeric fingerprint of this process and the digest of a short drive, in one
    line."""
    simulation = v.Simulation(profile, seed=SEED)
    for _ in range(round(seconds / simulation.period_s)):
        if simulation.step().over:
            break
    return f"{numeric_fingerprint()[0]} {simulation.digest}"


def arguments_of(count: int) -> tuple[list[float], list[float]]:
    """Return two lists of numbers from -10 to 10, the same ones on every computer."""
    golden, plastic = 0.6180339887498949, 0.7548776662466927
    first, second = (
        [(k * step) % 1.0 * 20.0 - 10.0 for k in range(1, count + 1)] for step in (golden, plastic)
    )
    return first, second


def functions(count: int) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Yield the functions of :mod:`math` that drives use, by name."""
    x, y = arguments_of(count)
    positive, unit = [abs(a) + 1e-9 for a in x], [0.1 * a for a in x]
    for name in ("sin", "cos", "tan", "atan", "exp", "expm1", "tanh"):
        yield name, partial(list, map(getattr(math, name), x))
    for name in ("asin", "acos"):
        yield name, partial(list, map(getattr(math, name), unit))
    for name in ("log", "sqrt"):
        yield name, partial(list, map(getattr(math, name), positive))
    for name in ("atan2", "hypot"):
        yield name, partial(list, map(getattr(math, name), x, y))
    yield "pow", partial(list, map(math.pow, positive, unit))
    yield "square", partial(list, map(math.pow, x, [2.0] * count))


def write_functions(count: int, file: str) -> None:
    """Write the values of all functions, one after the other."""
    with open(file, "wb") as out:
        for _, values in functions(count):
            out.write(struct.pack(f"{count}d", *values()))


def functions_that_differ(count: int, scratch: Path) -> dict[str, float]:
    """Return for each function the fraction of arguments whose value changes without fused
    multiply-add."""
    columns = []
    for name, environment in (("with", {}), ("without", NO_FMA)):
        file = scratch / name
        child(environment, "--functions", str(count), str(file))
        columns.append(file.read_bytes())
    found = {}
    for place, (name, _) in enumerate(functions(0)):
        pieces = [data[place * count * 8 : (place + 1) * count * 8] for data in columns]
        found[name] = (
            sum(a != b for a, b in zip(*(struct.iter_unpack("8s", piece) for piece in pieces)))
            / count
        )
    return found


def compare(profiles: Sequence[str], seconds: float, count: int, *, as_json: bool) -> None:
    """Print in how many ways each profile was driven, and how many digests that gave; then the
    functions."""
    variants = processors()
    drives = {}
    for profile in profiles:
        pairs = [
            child(environment, "--digest", profile, f"{seconds:g}").split()
            for environment in variants.values()
        ]
        without = child(NO_FMA, "--digest", profile, f"{seconds:g}").split()[1]
        drives[profile] = {
            "arithmetics": len({fingerprint for fingerprint, _ in pairs}),
            "digests": len({digest for _, digest in pairs}),
            "digest": pairs[0][1],
            "equal_without_fma": without == pairs[0][1],
        }
    with tempfile.TemporaryDirectory() as folder:
        changed = functions_that_differ(count, Path(folder))
    if as_json:
        print(json.dumps({"variants": list(variants), "drives": drives, "functions": changed}))
        return
    print(f"kernels of {len(variants)} processors: {', '.join(variants)}")
    print_table(
        f"Drives of {seconds:g} s, seed {SEED}",
        ["profile", "kinds of arithmetic", "digests", "digest", "the same without FMA"],
        [[name, *(str(value)[:12] for value in found.values())] for name, found in drives.items()],
    )
    rows = [[name, f"{1e6 * part:.0f}"] for name, part in changed.items()]
    print_table(
        f"Values that change without FMA, of a million ({count} tried)",
        ["function", "values"],
        rows,
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each drive")
    parser.add_argument(
        "--arguments", type=int, default=1_000_000, help="number of arguments for each function"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--digest",
        nargs=2,
        metavar=("PROFILE", "SECONDS"),
        help="print fingerprint and digest of one drive",
    )
    parser.add_argument("--functions", nargs=2, metavar=("COUNT", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.digest:
        print(drive(arguments.digest[0], float(arguments.digest[1])))
    elif arguments.functions:
        write_functions(int(arguments.functions[0]), arguments.functions[1])
    else:
        compare(
            arguments.profiles.split(","),
            arguments.seconds,
            arguments.arguments,
            as_json=arguments.json,
        )


if __name__ == "__main__":
    main()
