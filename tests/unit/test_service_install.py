"""Installing the service: every step printed, nothing of anybody's overwritten, and exactly the
same taken away."""

import hashlib
import json
import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from vehicled.cli import environment, main, service
from vehicled.cli.installation import Installer, InstallError
from vehicled.profile import load

HOME = environment.HIDDEN[0]
UV = """#!/bin/sh
echo "$UV_PYTHON_INSTALL_DIR $*" >> {record}
{then}
"""


def vehicled(*words: str) -> int:
    return main(["service", *words])


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_rehearsal_says_everything_and_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vehicled("install", "--dry-run", "--prefix", str(tmp_path)) == 0
    said = capsys.readouterr().out
    for path in (
        "etc/systemd/system/vehicled@.service", "etc/sysusers.d/vehicled.conf",
        "etc/udev/rules.d/60-vehicled.rules", "etc/vehicled/art.toml", "etc/vehicled/art.sha256",
        "etc/vehicled/art.env",
    ):  # fmt: skip
        assert f"write   {tmp_path}/{path}" in said
    for command in (
        "systemd-sysusers",
        "systemctl daemon-reload",
        "udevadm control --reload",
        "systemctl enable --now vehicled@art",
    ):
        assert command in said
    assert files(tmp_path) == {}


def test_twice_is_once_and_uninstall_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vehicled("install", "--prefix", str(tmp_path)) == 0
    first = files(tmp_path)
    profile = tmp_path / "etc/vehicled/art.toml"
    assert profile.read_bytes() == Path(load("art").path).read_bytes()
    digest = hashlib.sha256(profile.read_bytes()).hexdigest()
    assert first["etc/vehicled/art.sha256"] == f"{digest}  art.toml\n", "as sha256sum -c reads it"
    capsys.readouterr()
    assert vehicled("install", "--prefix", str(tmp_path)) == 0
    assert "write " not in capsys.readouterr().out
    assert files(tmp_path) == first
    assert vehicled("uninstall", "--prefix", str(tmp_path)) == 0
    assert files(tmp_path) == {}
    assert not (tmp_path / "etc/vehicled").exists()


def test_edited_files_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = ("--prefix", str(tmp_path))
    vehicled("install", *prefix)
    etc = tmp_path / "etc"
    edited = [
        etc / "vehicled/art.env",
        etc / "vehicled/art.toml",
        etc / "systemd/system/vehicled@.service",
    ]
    for path in edited:
        path.write_text(path.read_text() + "# mine\n")
    foreign = etc / "vehicled/notes.txt"
    foreign.write_text("mine")
    before = files(tmp_path)
    assert vehicled("install", *prefix) == 0
    assert files(tmp_path) == before, "neither the edited text nor the hash of what was checked"
    assert capsys.readouterr().out.count("keep ") == 3
    assert vehicled("uninstall", *prefix) == 0
    assert sorted(files(tmp_path)) == sorted(
        str(path.relative_to(tmp_path)) for path in [*edited, foreign]
    )


def test_an_edited_profile_is_accepted_by_installing_it(tmp_path: Path) -> None:
    prefix = ("--prefix", str(tmp_path))
    vehicled("install", *prefix)
    profile = tmp_path / "etc/vehicled/art.toml"
    profile.write_text(profile.read_text().replace("corridor_m = 2.0", "corridor_m = 1.5"))
    assert vehicled("install", *prefix, "--profile", str(profile)) == 0
    assert (
        profile.with_suffix(".sha256").read_text().split()[0]
        == hashlib.sha256(profile.read_bytes()).hexdigest()
    )


def test_a_broken_profile_installs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "mine.toml"
    broken.write_text(
        Path(load("art").path).read_text().replace("corridor_m = 2.0", "corridor_m = -2.0")
    )
    assert vehicled("install", "--prefix", str(tmp_path / "root"), "--profile", str(broken)) == 2
    assert "corridor_m" in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def test_two_profiles_share_the_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = ("--prefix", str(tmp_path))
    vehicled("install", *prefix, "--profile", "art")
    vehicled("install", *prefix, "--profile", "art_vesc")
    assert vehicled("uninstall", *prefix, "--profile", "art") == 0
    left = files(tmp_path)
    assert "etc/systemd/system/vehicled@.service" in left
    assert "etc/vehicled/art_vesc.toml" in left
    assert not [name for name in left if name.startswith("etc/vehicled/art.")]
    assert vehicled("uninstall", *prefix, "--profile", "art") == 2
    assert "installed: art_vesc" in capsys.readouterr().err


def test_passwords_are_credentials_of_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "mine.toml"
    ntrip = (
        '[devices.corrections]\nport = "tcp:caster.example:2101"\nmessages = ["Corrections"]\n'
        'driver = { name = "ntrip", ntrip = { mountpoint = "NEAR", user = "me", '
        'password_credential = "caster" } }\n\n'
    )
    text = (
        Path(load("art").path)
        .read_text()
        .replace("[devices.operator]", f"{ntrip}[devices.operator]")
    )
    profile.write_text(text + '\n[view]\ntoken_credential = "page"\n')
    assert vehicled("install", "--prefix", str(tmp_path / "root"), "--profile", str(profile)) == 0
    drop_in = (
        tmp_path / "root/etc/systemd/system/vehicled@art.service.d/credentials.conf"
    ).read_text()
    named = [
        f"LoadCredential={each}:/etc/vehicled/credentials/{each}\n" for each in ("caster", "page")
    ]
    assert drop_in == "[Service]\n" + "".join(named)
    assert (
        "install -D -m 600 /dev/stdin /etc/vehicled/credentials/caster" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("~/caster", "cannot see home directories and /tmp; write password_credential"),
        (f"{HOME}/me/caster", "cannot see home directories and /tmp; write password_credential"),
        ("caster", "give an absolute path"),
        ("/etc/vehicled/there_is_none", "cannot read /etc/vehicled/there_is_none (No such file"),
    ],
)
def test_a_password_file_that_the_service_cannot_read_is_refused(
    file: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "mine.toml"
    text = Path(load("f1tenth_gnss").path).read_text()
    twin = str(Path(load("f1tenth_gnss").path).parent / "twins")
    ntrip = (
        'driver = { name = "ntrip", ntrip = { mountpoint = "NEAR", user = "me", '
        f'password_file = "{file}" }} }}'
    )
    corrections = (
        '[devices.corrections]\nport = "tcp:caster.example:2101"\nmessages = '
        f'["Corrections"]\n{ntrip}\n\n'
    )
    profile.write_text(
        text.replace("[devices.gnss]", f"{corrections}[devices.gnss]", 1).replace(
            '"twins/', f'"{twin}/'
        )
    )
    assert vehicled("install", "--prefix", str(tmp_path / "root"), "--profile", str(profile)) == 2
    said = capsys.readouterr().err
    assert "devices.corrections.driver.ntrip.password_file" in said
    assert says in said
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("fence", "../yard.geojson", "put the file in the profile's folder"),
        ("fence", "gone.geojson", "cannot read"),
        ("course", "./mine.csv", "give an absolute path"),
        ("course", f"{HOME}/me/mine.csv", "cannot see home directories"),
    ],
)
def test_what_the_service_could_not_read_is_refused(
    key: str, value: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "mine.toml"
    text = Path(load("art").path).read_text()
    line = next(line for line in text.splitlines() if line.startswith("course = "))
    profile.write_text(text.replace(line, f'{key} = "{value}"'))
    assert vehicled("install", "--prefix", str(tmp_path / "root"), "--profile", str(profile)) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def test_a_fence_goes_with_its_profile(tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(
        Path(load("art").path)
        .read_text()
        .replace('course = "lot17"', 'fence = "yard.geojson"\ncourse = "lot17"')
    )
    (tmp_path / "yard.geojson").write_text("{}")
    assert vehicled("install", "--prefix", str(tmp_path / "root"), "--profile", str(profile)) == 0
    assert (tmp_path / "root/etc/vehicled/yard.geojson").read_text() == "{}"


def test_without_rights_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert vehicled("install", "--prefix", str(tmp_path)) == 2
    assert "as this user: sudo vehicled service install --profile art" in capsys.readouterr().err
    assert files(tmp_path) == {}


def test_a_damaged_account_is_not_guessed_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account = tmp_path / "etc/vehicled/.installed.json"
    account.parent.mkdir(parents=True)
    account.write_text("{")
    assert vehicled("uninstall", "--prefix", str(tmp_path)) == 2
    assert "is damaged: remove it" in capsys.readouterr().err


def test_a_command_that_fails_says_why_and_what_would_help() -> None:
    steps: list[str] = []
    installer = Installer("/", dry=False, say=steps.append)
    with pytest.raises(InstallError, match="status 3: no network; cure"):
        installer.run(["sh", "-c", "echo no network >&2; exit 3"], "cure")
    with pytest.raises(InstallError, match="no-such-command is not installed"):
        installer.run(["no-such-command"])
    installer.run(["false"], needs="/no/such/place")
    assert steps[-1] == "skip    false (not needed: no /no/such/place)"


class TestEnvironment:
    """The Python of the service, where the board's own is too old."""

    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(environment, "PLACE", str(tmp_path / "opt/vehicled"))
        monkeypatch.setattr(environment, "PYTHONS", str(tmp_path / "opt/python"))
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        (tmp_path / "requirements.lock").write_text("")

    def uv(self, folder: Path, then: str = "exit 0") -> Path:
        """One that writes down how it was called."""
        record = folder / "called"
        (folder / "uv").write_text(UV.format(record=record, then=then))
        (folder / "uv").chmod(0o755)
        return record

    def test_an_older_python_is_left_alone_and_uv_brings_one(self, tmp_path: Path) -> None:
        called = self.uv(tmp_path)
        installer = Installer("/", dry=False, say=lambda text: None)
        environment.settle(
            installer, tmp_path, "0.1.0", base=Path("/usr/bin/python3.10"), python=(3, 10, 12)
        )
        place, pythons = environment.PLACE, environment.PYTHONS
        assert called.read_text().splitlines() == [
            f"{pythons} python install 3.12",
            f"{pythons} venv --python-preference only-managed --python 3.12 {place}",
            (
                f" pip install --python {place}/bin/python --require-hashes -r "
                f"{tmp_path}/requirements.lock"
            ),
            f" pip install --python {place}/bin/python --no-deps --no-build-isolation {tmp_path}",
        ]
        assert installer.owns_tree(place)
        assert installer.owns_tree(pythons)

    def test_no_network_is_reported_with_the_cure(self, tmp_path: Path) -> None:
        self.uv(tmp_path, "echo 'error: dns error' >&2; exit 2")
        installer = Installer("/", dry=False, say=lambda text: None)
        with pytest.raises(
            InstallError, match=r"failed with status 2: error: dns error; without a network: create"
        ):
            environment.settle(
                installer, tmp_path, "0.1.0", base=Path("/usr/bin/python3.10"), python=(3, 10, 12)
            )
        assert not installer.owns_tree(environment.PLACE)

    def test_without_uv_the_cure_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(
            InstallError, match=r"is Python 3\.10, vehicled needs 3\.11, and uv.*pip install uv"
        ):
            environment.settle(
                Installer("/", dry=True),
                tmp_path,
                "0.1.0",
                base=Path("/usr/bin/python3.10"),
                python=(3, 10, 12),
            )

    def test_a_rehearsal_names_the_files_before_what_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "_base_executable", f"{HOME}/me/.pyenv/bin/python3", raising=False)
        assert vehicled("install", "--dry-run") == 2
        said = capsys.readouterr()
        assert service.UNIT in said.out
        assert "run     systemctl daemon-reload" in said.out
        assert "is in a home directory, which the service cannot see, and uv" in said.err

    @pytest.mark.parametrize(
        ("base", "uses"),
        [("/usr/bin/python3.12", "-m venv"), (f"{HOME}/me/.pyenv/bin/python3", "uv venv")],
    )
    def test_a_python_in_a_home_is_of_no_use_to_a_service(
        self, base: str, uses: str, tmp_path: Path
    ) -> None:
        self.uv(tmp_path)
        steps: list[str] = []
        environment.settle(
            Installer("/", dry=True, say=steps.append),
            tmp_path,
            "0.1.0",
            base=Path(base),
            python=(3, 12, 1),
        )
        assert uses in "\n".join(steps)

    def test_one_that_is_right_is_left_as_it_is(self, tmp_path: Path) -> None:
        command = Path(environment.PLACE, "bin/vehicled")
        command.parent.mkdir(parents=True)
        command.write_text("#!/bin/sh\necho vehicled 0.1.0\n")
        command.chmod(0o755)
        steps: list[str] = []
        environment.settle(Installer("/", dry=False, say=steps.append), tmp_path, "0.1.0")
        assert steps == []
        with pytest.raises(
            InstallError, match=r"is 0\.1\.0, this is 0\.2\.0, and this command did not create it"
        ):
            environment.settle(Installer("/", dry=False, say=steps.append), tmp_path, "0.2.0")


def test_the_first_steps_need_no_package_at_all(project_root: Path) -> None:
    """These modules run on a board with only an older Python, before anything is installed."""
    import ast

    cli = (
        f"cli/{name}" for name in ("__init__", "commands", "service", "installation", "environment")
    )
    run = (f"run/{name}" for name in ("__init__", "argument_types", "command_line"))
    for name in ("__main__", "__init__", "moved", "core/__init__", "core/shipped", *cli, *run):
        tree = ast.parse(
            (project_root / f"vehicled/{name}.py").read_text(), feature_version=(3, 10)
        )
        for node in tree.body:
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in getattr(node, "names", [])]
            )
            for each in names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                assert each.split(".")[0] in {*sys.stdlib_module_names, "vehicled"}, (
                    f"{name} imports {each}"
                )


def test_the_account_names_every_file(tmp_path: Path) -> None:
    vehicled("install", "--prefix", str(tmp_path))
    account = json.loads((tmp_path / "etc/vehicled/.installed.json").read_text())
    assert {path.lstrip("/") for path in account} | {"etc/vehicled/.installed.json"} == set(
        files(tmp_path)
    )
    assert Namespace(**account["/etc/vehicled/art.toml"]).sha256 == load("art").digest


def test_what_another_python_installed_is_in_the_account_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that is too old makes the environment, and continues in that."""
    place, image = tmp_path / "opt", tmp_path / "image"
    (place / "bin").mkdir(parents=True)
    (place / "bin/vehicled").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m vehicled "$@" --prefix {image}\n'
    )
    (place / "bin/vehicled").chmod(0o755)
    monkeypatch.setattr(environment, "PLACE", str(place))
    with monkeypatch.context() as older:
        older.setattr(service, "_can_read_profiles", lambda: False)
        assert vehicled("install", "--prefix", str(image)) == 0
    assert "usr/local/bin/vehicled" in files(image)
    assert vehicled("uninstall", "--prefix", str(image)) == 0
    assert files(image) == {}


def test_without_an_environment_there_is_no_command_that_leads_into_it(tmp_path: Path) -> None:
    """/usr/local/bin comes before /usr/bin: it would hide the command that is on the PATH
    already."""
    assert vehicled("install", "--no-environment", "--prefix", str(tmp_path)) == 0
    assert "usr/local/bin/vehicled" not in files(tmp_path)
