"""A profile on a base: what it states, what it inherits, and which line is at fault."""

import json
from pathlib import Path

import pytest

from vehicled.core import shipped
from vehicled.offline.twin.calibration.profile_write import moved, with_values
from vehicled.profile import Loaded, ProfileError, load, names, parse
from vehicled.profile.showing import shown, text_of
from vehicled.run.findings import findings

VARIANTS = json.loads(
    (Path(__file__).parents[1] / "golden" / "profiles" / "variants.json").read_text()
)
"""Values that the shipped profiles with a base stated when each was complete, by profile and
table."""
MINE = """
name = "mine"
base = "f1tenth"
without = ["devices.heading", "sim.heading"]

[vehicle]
mass_kg = 3.1

[devices.gnss]
lever_arm_m = [0.1, 0.0, 0.2]
"""


def written(folder: Path, text: str = MINE, name: str = "mine") -> str:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return str(file)


def refusal(file: str) -> str:
    with pytest.raises(ProfileError) as caught:
        load(file)
    return str(caught.value)


def origin(loaded: Loaded, key: str) -> str:
    return next(each.origin for each in shown(loaded) if ".".join(map(str, each.path)) == key)


def test_tables_merge_and_everything_else_replaces(tmp_path: Path) -> None:
    mine, base = load(written(tmp_path)).profile, load("f1tenth").profile
    assert (mine.name, mine.vehicle.mass_kg, mine.vehicle.track_m) == (
        "mine",
        3.1,
        base.vehicle.track_m,
    )
    assert mine.devices["gnss"].lever_arm_m == [0.1, 0.0, 0.2]
    assert mine.devices["gnss"].rate_hz == base.devices["gnss"].rate_hz
    assert list(mine.devices) == [name for name in base.devices if name != "heading"]
    assert mine.sim.heading is None
    assert mine.limits == base.limits


def test_a_base_may_have_a_base_and_be_a_file(tmp_path: Path) -> None:
    written(tmp_path)
    written(
        tmp_path,
        (
            'name = "second"\nbase = "./mine.toml"\nwithout = ["devices.imu"]\n[vehicle]\ntrack_m '
            "= 0.2\n"
        ),
        "second",
    )
    with pytest.raises(
        ProfileError,
        match=r'"devices\.imus" is not in the base mine\.toml; did you mean "devices\.imu"\?',
    ):
        load(written(tmp_path, 'name = "x"\nbase = "mine.toml"\nwithout = ["devices.imus"]\n', "x"))
    second = load(str(tmp_path / "second.toml"))
    assert (second.profile.vehicle.mass_kg, second.profile.vehicle.track_m) == (3.1, 0.2)
    assert "imu" not in second.profile.devices
    assert origin(second, "vehicle.track_m") == "second.toml, line 5"
    assert origin(second, "vehicle.mass_kg") == "mine.toml, line 7"
    assert origin(second, "vehicle.wheelbase_m").startswith("f1tenth.toml, line ")
    assert origin(second, "limits.gnss_refusals") == "default"


def test_a_name_means_the_profile_below_the_one_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own art may rest on the shipped one."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    folder = tmp_path / ".config" / "vehicled" / "profiles"
    folder.mkdir(parents=True)
    written(folder, 'name = "art"\nbase = "art"\n[vehicle]\nmass_kg = 7.5\n', "art")
    assert load("art").profile.vehicle.mass_kg == 7.5
    assert load("art").profile.vehicle.track_m == 0.332


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'base = "f1tenht"\nname = "x"',
            'base (line 1): "f1tenht": no profile of that name; did you mean "f1tenth"?',
        ),
        ('name = "x"\nbase = "./missing.toml"', "missing.toml no such file"),
        ('name = "x"\nbase = 3', "base (line 2): must be the name of a profile"),
        (
            'name = "x"\nbase = "./mine.toml"',
            'base (line 2): "./mine.toml" is this profile itself, or rests on it',
        ),
        ('name = "x"\nbase = "./other.toml"', "is this profile itself, or rests on it"),
        ('base = "f1tenth"', "name: missing; a profile with a base has a name of its own"),
        (
            'name = "x"\nbase = "f1tenth"\nwithout = "imu"',
            "without (line 3): must be a list of keys of the base",
        ),
        (
            'name = "x"\nwithout = ["devices.imu"]',
            "without (line 2): leaves out keys of a base, and no base is named",
        ),
        (
            'name = "x"\nbase = "f1tenth"\nwithout = ["vehicle.mass_kg"]',
            "vehicle.mass_kg (line 3): missing",
        ),
        (
            'name = "x"\nbase = "f1tenth"\n[vehicle]\nmass_kg = -1',
            "vehicle.mass_kg (line 4): must be",
        ),
        (
            'name = "x"\nbase = "f1tenth"\n[vehicle]\nmas_kg = 3',
            'vehicle.mas_kg (line 4): unknown key; did you mean "mass_kg"',
        ),
    ],
)
def test_a_mistake_is_named_with_its_file_and_its_cure(
    tmp_path: Path, text: str, says: str
) -> None:
    written(tmp_path, 'name = "other"\nbase = "./mine.toml"', "other")
    assert says in refusal(written(tmp_path, text))


def test_a_mistake_of_the_base_is_named_there(tmp_path: Path) -> None:
    written(tmp_path, MINE.replace("3.1", '"heavy"'), "common")
    text = refusal(written(tmp_path, 'name = "x"\nbase = "./common.toml"'))
    assert "vehicle.mass_kg (common.toml, line 7): must be" in text
    written(tmp_path, "mass_kg = = 1", "common")
    assert "common.toml" in refusal(written(tmp_path, 'name = "x"\nbase = "./common.toml"'))


def test_remarks_name_the_file_that_states_the_value(tmp_path: Path) -> None:
    loaded = load(
        written(tmp_path, MINE + "\n[limits]\nimu_silence_s = 0.02\n"), ["limits.max_speed_mps=50"]
    )
    places = {note.path: note.place for note in findings(loaded, on_road=True)}
    assert places["limits.max_speed_mps"] == "--set limits.max_speed_mps=50"
    assert places["limits.imu_silence_s"] == "line 13"


def test_files_of_a_base_count_from_the_base(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "loop.csv").write_text("x_m,y_m\n0,0\n10,0\n10,10\n0,10\n")
    (tmp_path / "base" / "yard.toml").write_text("")
    written(
        tmp_path / "base",
        'name = "common"\nbase = "f1tenth"\ncourse = "loop.csv"\n[sim]\nscene = "yard.toml@0.5"\n',
        "common",
    )
    profile = load(written(tmp_path, 'name = "x"\nbase = "base/common.toml"')).profile
    assert profile.course == str(tmp_path / "base" / "loop.csv")
    assert profile.sim.scene == f"{tmp_path / 'base' / 'yard.toml'}@0.5"


def test_what_a_log_keeps_is_the_whole_and_needs_no_base(tmp_path: Path) -> None:
    loaded = load(written(tmp_path), ["vehicle.mass_kg=3.3"])
    again = parse(loaded.source)
    assert again.profile == loaded.profile
    assert "base" not in loaded.source.splitlines()[1]
    with pytest.raises(ProfileError, match="has all its values, and no base"):
        parse(MINE)


def test_a_number_is_written_beside_the_base_and_comments_stay(tmp_path: Path) -> None:
    text = with_values("# my car\n" + MINE, {"limits.corridor_m": "0.8", "vehicle.mass_kg": "3.2"})
    assert text.startswith("# my car")
    assert "[limits]\ncorridor_m = 0.8" in text
    profile = parse(text, beside=tmp_path).profile
    assert (profile.limits.corridor_m, profile.vehicle.mass_kg) == (0.8, 3.2)


def test_a_text_that_moves_to_another_folder_keeps_its_base(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "out").mkdir()
    file = Path(written(tmp_path, 'name = "x"\nbase = "mine.toml"', "x"))
    text = moved(file.read_text(), file, tmp_path / "out" / "x.toml")
    assert load(written(tmp_path / "out", text, "x")).profile.vehicle.mass_kg == 3.1


@pytest.mark.parametrize("name", names())
def test_the_whole_that_is_shown_is_the_same_profile(name: str) -> None:
    loaded = load(name)
    assert parse(text_of(loaded)).profile == loaded.profile


def test_the_twin_is_the_vehicle_itself_where_nothing_else_is_stated(tmp_path: Path) -> None:
    text = (
        'name = "x"\nbase = "art_published"\nwithout = ["sim"]\n[sim.steering]\nslack_rad = 0.01\n'
    )
    loaded = load(written(tmp_path, text), ["vehicle.steering.gain_rad=0.3"])
    vehicle, sim = loaded.profile.vehicle, loaded.profile.sim
    assert sim.steering is not None
    assert sim.heading is not None
    assert (sim.wheelbase_m, sim.drive) == (vehicle.wheelbase_m, vehicle.drive)
    assert (sim.steering.gain_rad, sim.steering.slack_rad) == (0.3, 0.01)
    assert (sim.imu.rate_hz, sim.heading.rate_hz) == (loaded.profile.devices["imu"].rate_hz, 10.0)
    assert (
        origin(loaded, "sim.steering.gain_rad")
        == "as vehicle.steering.gain_rad, --set vehicle.steering.gain_rad=0.3"
    )
    assert "sim." not in loaded.source.replace("sim.steering", ""), (
        "what is derived is not written down"
    )


def test_a_mistake_is_reported_once_although_the_twin_has_the_value_too(tmp_path: Path) -> None:
    text = refusal(
        written(
            tmp_path,
            (
                'name = "x"\nbase = "art_published"\nwithout = '
                '["sim"]\n[vehicle.steering]\ngain_rad = '
                "-1\n"
            ),
        )
    )
    assert text.count("must be a number > 0") == 1


@pytest.mark.parametrize("name", VARIANTS)
def test_a_shipped_variant_has_the_values_that_it_had_when_it_stated_them_all(name: str) -> None:
    values = {
        each.path: each.value
        for each in shown(load(str(shipped.folder("profiles") / f"{name}.toml")))
    }
    for table, keys in VARIANTS[name].items():
        for key, value in keys.items():
            path = (*table.split("."), key) if table else (key,)
            assert values[path] == value, ".".join(path)


def test_a_plant_of_ones_own_has_the_numbers_of_the_vehicle_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Plant:\n    pass\n")
    profile = load("art_published", [f"sim.plant={tmp_path}/mine.py:Plant"]).profile
    assert (profile.sim.wheelbase_m, profile.sim.drive) == (
        profile.vehicle.wheelbase_m,
        profile.vehicle.drive,
    )
