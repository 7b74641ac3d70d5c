"""The registry: lazy, and helpful about names nobody registered."""

import subprocess
import sys
from pathlib import Path

import pytest

from vehicled.profile import registry
from vehicled.profile.registry import UnknownNameError

ROOT = Path(__file__).parents[2]


def test_every_registered_name_resolves_to_what_its_kind_needs() -> None:
    for kind in ("estimator", "controller"):
        for name in registry.names(kind):
            assert registry.resolve(kind, name).Params() is not None, name
    for name in registry.names("driver"):
        device = registry.resolve("driver", name)
        assert device.produces or device.consumes or callable(device.on_rx)


def test_names_of_a_package_that_is_left_out_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry itself names nothing of ``offline``; a package brings its names with it."""
    assert "offline" not in Path(registry.__file__).read_text(encoding="utf-8")
    assert "ekf4_published" in registry.ESTIMATORS
    monkeypatch.setattr(registry, "_TABLES", {"estimator": {}})
    registry.add_names(tmp_path)
    assert registry.names("estimator") == ()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "names.toml").write_text(
        '[estimator]\nnearly = "vehicled.estimation.ekf4.estimator:Ekf4"\n'
    )
    registry.add_names(tmp_path)
    assert registry.resolve("estimator", "nearly").__name__ == "Ekf4"


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        registry.resolve("controller", "pure_persuit")
    error = caught.value
    assert (error.kind, error.name, error.suggestion) == (
        "controller",
        "pure_persuit",
        "pure_pursuit",
    )
    assert 'unknown controller "pure_persuit"; did you mean "pure_pursuit"?' in str(error)
    assert set(error.choices) == set(registry.CONTROLLERS)


def test_unknown_name_far_from_all_lists_what_there_is() -> None:
    error = UnknownNameError("estimator", "zzzzzz")
    assert error.suggestion is None
    assert "did you mean" not in str(error)
    assert "ekf4" in str(error)


def test_a_line_more_is_all_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.CONTROLLERS, "added", "fractions:Fraction")
    assert registry.resolve("controller", "added").__name__ == "Fraction"
    assert "added" in registry.names("controller")


def test_nothing_is_imported_before_it_is_resolved() -> None:
    loaded = "[m for m in sys.modules if m.startswith(('drivers.', 'vehicled.control'))]"
    code = f"import sys, vehicled.profile.registry; print({loaded})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
