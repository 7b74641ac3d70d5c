"""The host's side of `make image`, as far as it needs no container engine."""

from pathlib import Path

import pytest

from bench.board_vm.image import MissingToolError
from bench.container.__main__ import (
    FailedError,
    NotTriedError,
    build,
    drives,
    engine_here,
    verdicts,
)


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """An engine that writes down its arguments and prints the file ``answer`` beside it."""
    program = tmp_path / "podman"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.args"\ncat "${0%/*}/answer"\n')
    program.chmod(0o755)
    return program


def arguments(engine: Path) -> list[str]:
    return Path(f"{engine}.args").read_text().splitlines()


def test_the_base_and_the_certificates_reach_the_build(
    engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.with_name("answer").write_text("")
    monkeypatch.delenv("PIP_CERT", raising=False)
    build(str(engine), "")
    assert "--build-arg" not in arguments(engine)
    assert "--secret" not in arguments(engine)
    monkeypatch.setenv("PIP_CERT", "/own.pem")
    build(str(engine), "debian:trixie-slim")
    given = arguments(engine)
    assert given[given.index("--build-arg") + 1] == "BASE=debian:trixie-slim"
    assert given[given.index("--secret") + 1] == "id=certificates,src=/own.pem"


@pytest.mark.parametrize(
    ("mode", "speed", "expected"),
    [("AUTO", 0.9, True), ("AUTO", 0.1, False), ("STOPPING", 0.9, False)],
)
def test_a_vehicle_drives_if_it_moves_by_itself(
    engine: Path, mode: str, speed: float, expected: bool
) -> None:
    answer = f'{{"mode": "{mode}", "estimate": {{"speed_mps": {speed}}}}}'
    engine.with_name("answer").write_text(answer)
    assert drives(str(engine), "car") is expected


def test_a_failed_check_fails_and_one_that_cannot_be_tried_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def good(engine: str) -> str:
        """The good holds."""
        return engine

    def untried(engine: str) -> str:
        """The other is not there."""
        raise NotTriedError("no compose")

    def bad(engine: str) -> str:
        """The bad does not hold."""
        raise FailedError("seen")

    assert verdicts("podman", [good, untried])
    assert not verdicts("podman", [bad, good])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[::2]] == ["passed", "not", "FAILED", "passed"]


def test_a_missing_engine_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="podman"):
        engine_here()
