"""Finding, reading, overriding and keeping a profile; what art.toml says."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim_backend.plant.wiring import wiring
from vehicled import profile as profiles
from vehicled.core.messages import ALL
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.profile import ProfileError, loading, profile_files, schema, toml_text

ROOT = Path(__file__).parents[2]
ART = ROOT / "profiles" / "art.toml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with an empty folder for profiles; returns the latter."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "vehicled" / "profiles"
    folder.mkdir(parents=True)
    return folder


def refusal(name_or_file: str, *overrides: str) -> str:
    with pytest.raises(ProfileError) as caught:
        profiles.load(name_or_file, overrides)
    return str(caught.value)


# ----------------------------------------------------------------------------------------- art.toml


def test_art_says_what_it_is() -> None:
    art = profiles.load_profile("art")
    assert (art.name, art.course, art.schema) == ("art", "lot17", 1)
    assert [name for name, device in art.devices.items() if device.capabilities is not None] == [
        "drive"
    ]
    assert art.devices["drive"].capabilities == schema.Capabilities(
        telemetry=False, brake=False, readable_timeout=False
    )
    rates = {name: task.rate_hz for name, task in msgspec.structs.asdict(art.tasks).items()}
    assert rates == {"ingestion": 400.0, "fusion": 200.0, "control": 100.0, "actuation": 100.0}
    assert type(art.tasks.ingestion.rate_hz) is float
    assert art.estimator.selected == art.estimator.params["planar"]
    assert art.controller.selected.speed.p == 1.5
    assert art.limits.max_speed_mps == pytest.approx(art.vehicle.drive.top_speed_mps, rel=0.01)


def test_the_published_vehicle_is_believed_as_it_is() -> None:
    art = profiles.load_profile("art_published")
    for key in ("gain_rad", "offset_rad", "delay_s", "max_wheel_rad", "rate_radps"):
        assert getattr(art.sim.steering, key) == getattr(art.vehicle.steering, key), key
    assert art.sim.drive == art.vehicle.drive


def test_the_steering_of_a_twin_file_is_changed_by_the_keys_of_every_plant() -> None:
    overrides = [
        "sim.steering.gain_rad=0.225",
        "sim.steering.delay_s=0.8",
        "sim.twin.changes.body.mass_kg=9.0",
    ]
    loaded = profiles.load("art", overrides)
    assert loaded.profile.sim.steering is None
    wired = wiring(loaded.profile.sim)
    assert wired.steering_delay_s == 0.8
    assert [wired.angle_rad(command) for command in (-1.0, 0.0, 0.5)] == pytest.approx(
        [-0.225, 0.0, 0.1125]
    )
    assert wired.rate_radps == wiring(profiles.load_profile("art").sim).rate_radps
    assert profiles.parse(loaded.source).profile == loaded.profile
    assert "has its drive in the twin file" in refusal("art", "sim.drive.friction_nm=1")
    assert "has its steering in the twin file" in refusal("art", "sim.steering.slack_deg=1")
    assert "reads no twin file" in refusal("art_published", "sim.twin.vehicle=art_lfdm")


@pytest.mark.parametrize("value", ["nan", "-1", "0", "'x'", "[0.2]", "true", "{}"])
def test_a_steering_that_is_no_number_is_refused_beside_a_twin_file(value: str) -> None:
    with pytest.raises(ProfileError, match=r"gain_rad|map_angle_rad"):
        wiring(profiles.load_profile("art", [f"sim.steering.gain_rad={value}"]).sim)


def test_art_believes_a_line_through_what_its_twin_does() -> None:
    art = profiles.load_profile("art")
    wired, believed = wiring(art.sim), art.vehicle.steering
    for command in (0.4, 0.6, 0.8, 1.0):
        turned = 0.5 * (wired.angle_rad(command) - wired.angle_rad(-command))
        assert believed.wheel_angle_rad(command) == pytest.approx(turned, rel=0.05)
    assert (believed.delay_s, believed.rate_radps) == (wired.steering_delay_s, wired.rate_radps)


def test_the_former_name_of_a_key_is_accepted() -> None:
    text = profile_files.find("art").read_text()
    former = text.replace("max_rejections", "gate_patience")
    assert former != text
    assert loading.parse(former).profile == loading.parse(text).profile


def test_art_is_silent_about_nothing() -> None:
    """No number of belief, limits or twin is left to a default."""
    data = tomllib.loads(ART.read_text())

    def missing(struct: Any, table: dict[str, Any], path: str) -> list[str]:
        found = []
        for field in msgspec.structs.fields(struct):
            if field.name not in table:
                found.append(f"{path}.{field.name}")
            elif isinstance(table[field.name], dict):
                inner = (
                    field.type
                    if isinstance(field.type, type)
                    else msgspec.inspect.type_info(field.type).types[0].cls  # type: ignore[attr-defined]
                )
                found += missing(inner, table[field.name], f"{path}.{field.name}")
        return found

    assert missing(Vehicle, data["vehicle"], "vehicle") == []
    assert missing(Limits, data["limits"], "limits") == []
    # Another plant's, sensors and a projection that the vehicle does not have, and a latency that
    # is no part of it.
    others = [
        "sim.twin.changes",
        "sim.wheelbase_m",
        "sim.steering",
        "sim.drive",
        "sim.heading.magnetometer",
        "sim.motor_status",
        "sim.wheel_encoders",
        "sim.steering_feedback",
        "sim.reference",
        "sim.mocap",
        "sim.traffic",
        "sim.terrain.crs",
        "sim.latency",
    ]
    assert missing(schema.Sim, data["sim"], "sim") == others


def test_carried_messages_are_message_types() -> None:
    assert set(schema.Carried.__args__) <= {message.__name__ for message in ALL}  # type: ignore[attr-defined]


def test_loading_takes_no_heavy_library() -> None:
    code = (
        "import sys; from vehicled.profile import load_profile; load_profile('art');print([m for "
        "m in ('osqp', 'scipy', 'matplotlib', 'rich', 'asyncio', 'anyio', 'sim_backend') if m in "
        "sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------- names and files


def test_the_users_profile_comes_before_the_shipped_one(home: Path) -> None:
    (home / "art.toml").write_text(ART.read_text().replace("mass_kg = 6.95", "mass_kg = 7.5"))
    (home / "mine.toml").write_text(ART.read_text().replace('name = "art"', 'name = "mine"', 1))
    assert profiles.load_profile("art").vehicle.mass_kg == 7.5
    assert profiles.load_profile("mine").name == "mine"
    assert {"art", "mine"} <= set(profiles.names())
    assert profiles.load_profile(str(ART)).vehicle.mass_kg == 6.95


def test_describe_lists_broken_profiles_too(home: Path) -> None:
    (home / "broken.toml").write_text("schema = 1\n")
    summaries = {summary.name: summary for summary in profiles.describe()}
    assert summaries["art"].description.startswith("ART 1/6-scale car")
    assert summaries["art"].path == str(ART)
    assert summaries["art"].problem == ""
    assert "problems, see: vehicled check broken" in summaries["broken"].problem


def test_no_home_leaves_the_shipped_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    assert profiles.load_profile("art").name == "art"


def test_unknown_name_suggests_and_says_how_to_give_a_file(home: Path) -> None:
    text = refusal("atr")
    assert 'profile "atr"' in text
    assert 'did you mean "art"?' in text
    assert "./my.toml" in text


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "~nobody_of_that_name/x.toml"])
def test_names_that_are_none(name: str) -> None:
    assert "1 problem" in refusal(name)


def test_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "vehicle.toml").write_text("")
    assert "no such file; did you mean vehicle.toml?" in refusal(str(tmp_path / "vehicel.toml"))


def test_folder_is_not_a_profile(tmp_path: Path) -> None:
    assert "is a folder" in refusal(f"{tmp_path}/")


def test_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert "not a regular file" in refusal(str(tmp_path / "pipe.toml"))


def test_file_that_may_not_be_read_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret.toml"
    file.write_text("")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        Path, "open", denied
    )  # a test that runs as root is never refused by the system
    assert "chmod a+r secret.toml" in refusal(str(file))


def test_size_limit(tmp_path: Path) -> None:
    file = tmp_path / "log.toml"
    file.write_bytes(b"#" * (profile_files.MAX_BYTES + 1))
    assert "larger than 256 KiB" in refusal(str(file))
    file.write_bytes(ART.read_bytes() + b"#" * (profile_files.MAX_BYTES - ART.stat().st_size))
    assert profiles.load_profile(str(file)).name == "art"


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes("schema = 1\n# 5 µs\n".encode("latin-1"))
    assert "not UTF-8 text (line 2); save it as UTF-8" in refusal(str(file))
    file.write_text("schema = 1", encoding="utf-16")
    assert "is UTF-16 text" in refusal(str(file))


def test_windows_file_with_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf" + ART.read_bytes().replace(b"\n", b"\r\n"))
    assert profiles.load_profile(str(file)) == profiles.load_profile(str(ART))


# ----------------------------------------------------------------------------- overrides and source


def test_digest_is_that_of_the_file() -> None:
    loaded = profiles.load("art")
    assert loaded.source == ART.read_text()
    assert loaded.digest == hashlib.sha256(ART.read_bytes()).hexdigest()
    assert profiles.parse(loaded.source).profile == loaded.profile


def test_source_with_overrides_gives_the_same_profile_again() -> None:
    loaded = profiles.load(
        "art",
        [
            "tasks.control.rate_hz=60",
            "description=my own car",
            "devices.gnss.lever_arm_m=[0, 0.1, 0.2]",
        ],
    )
    assert loaded.profile.tasks.control.rate_hz == 60.0
    assert loaded.profile.description == "my own car"
    assert loaded.profile.devices["gnss"].lever_arm_m == [0.0, 0.1, 0.2]
    again = profiles.parse(loaded.source)
    assert again.profile == loaded.profile
    assert again.digest == loaded.digest == hashlib.sha256(loaded.source.encode()).hexdigest()
    assert loaded.digest != profiles.load("art").digest


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("log.compression=lz4", "lz4"),
        ("log.compression = 'lz4'", "lz4"),
        ('log.compression="none"', "none"),
    ],
)
def test_text_needs_no_quotes(override: str, value: str) -> None:
    assert profiles.load_profile("art", [override]).log.compression == value


@pytest.mark.parametrize(
    "address",
    [
        "can:can0",
        "can:slcan:/dev/serial/by-id/usb-X_0001-if00?bitrate=500000",
        "serial:/dev/ttyS0?baud=9600&dtr=off",
        "tcp:[::1]:7700",
    ],
)
def test_addresses_need_no_quotes(address: str) -> None:
    # systemd removes those of VEHICLED_OPTIONS, too.
    assert (
        profiles.load_profile("art_vesc", [f"devices.drive.port={address}"]).devices["drive"].port
        == address
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.25", 0.25), (".25", 0.25), ("+.25", 0.25), ("1.", 1.0), ("1e-1", 0.1), ("1", 1.0)],
)
def test_numbers_as_one_types_them(text: str, value: float) -> None:
    assert (
        profiles.load_profile("art", [f"vehicle.steering.delay_s={text}"]).vehicle.steering.delay_s
        == value
    )


def test_the_last_override_of_a_key_wins() -> None:
    assert (
        profiles.load_profile(
            "art", ["limits.corridor_m=3", "limits.corridor_m=4"]
        ).limits.corridor_m
        == 4.0
    )


def test_override_makes_the_table_it_needs() -> None:
    assert profiles.load_profile(
        "art", ["sim.motor_status.rate_hz=20"]
    ).sim.motor_status == schema.MotorStatusModel(rate_hz=20.0)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "tasks.control.rate_h=60",
            ["tasks.control.rate_h (--set tasks.control.rate_h=60)", 'did you mean "rate_hz"'],
        ),
        (
            "taks.control.rate_hz=60",
            ["taks (--set taks.control.rate_hz=60)", "did you mean [tasks.control]"],
        ),
        (
            "tasks.control.rate_hz=-1",
            ["--set tasks.control.rate_hz=-1", "> 0 and <= 10000, found -1"],
        ),
        ("tasks.control.rate_hz.x=1", ["tasks.control.rate_hz is 100, not a table"]),
        (
            "rate_hz=60",
            [
                "(--set rate_hz=60)",
                "belongs in devices.<name> or tasks.ingestion or tasks.fusion or tasks.control or",
            ],
        ),
        ("tasks.control.rate_hz", ["write --set table.key=value"]),
        ("=5", ['"" is not a key']),
        ("a b=5", ['"a b" is not a key']),
        ("course=", ["the value is missing"]),
        ("course=[1, 2", ["neither a TOML value nor plain words"]),
        ("course=x\ny", ["control characters"]),
        ("course=\udcff", ["bytes that are no text"]),
        ("vehicle=5", ["vehicle (--set vehicle=5): must be a table"]),
    ],
)
def test_override_mistakes_name_the_option(override: str, expected: list[str]) -> None:
    text = refusal("art", override)
    for part in expected:
        assert part in text
    text.encode()


def test_every_bad_override_is_reported_together() -> None:
    with pytest.raises(ProfileError) as caught:
        profiles.load("art", ["nonsense", "limits.corridor_m=-1", "course="])
    assert len(caught.value.problems) == 3


# -------------------------------------------------------------------------------- lines of the file


def test_every_key_of_art_is_found_on_its_line() -> None:
    text = ART.read_text()
    lines = text.split("\n")
    places = toml_text.Places(text, ())
    count = 0

    def visit(table: dict[str, Any], path: tuple[str, ...]) -> None:
        nonlocal count
        for key, value in table.items():
            if isinstance(value, dict):
                visit(value, (*path, key))
            else:
                line = places.line((*path, key))
                assert line is not None
                # An inline table is written on the line of the key that holds it.
                assert re.search(rf"(^|[{{,]\s*){key} = ", lines[line - 1]), (path, key)
                count += 1

    visit(tomllib.loads(text), ())
    assert count > 120


def test_lines_are_right_after_texts_and_lists_of_several_lines() -> None:
    text = (
        'a = """\n[x]\nb = 1 """"\n# ] """\nlist = [ # [\n  "]",\n  \'"\',\n]\n'
        "b = '''\n= '''\n[t.\"q.r\"]\nc.d = {e = 1}\n[[u]]\nf = 1\n"
    )
    tomllib.loads(text)
    places = toml_text.Places(text, ())
    expected = {
        ("a",): 1,
        ("list",): 5,
        ("b",): 9,
        ("t", "q.r"): 11,
        ("t", "q.r", "c", "d"): 12,
        ("u", "f"): 14,
    }
    assert {path: places.line(path) for path in expected} == expected
    assert places.line(("t", "q.r", "missing")) == 11, "a missing key is placed at its table"
    assert places.line(("nowhere",)) is None


def test_profile_is_immutable() -> None:
    art = profiles.load_profile("art")
    for struct, key in (
        (art, "name"),
        (art.vehicle, "mass_kg"),
        (art.tasks.control, "rate_hz"),
        (art.controller, "name"),
    ):
        with pytest.raises(AttributeError):
            setattr(struct, key, None)
