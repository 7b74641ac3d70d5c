"""The udev rules are rules, and do what the ports rely on."""

import re
import shutil
import subprocess

import pytest

PAIR = re.compile(r'[A-Z]+(\{[\w/]+\})?(==|!=|\+=|=)"[^"]*"')


@pytest.fixture
def rules(project_root):
    """The file, and its rules without comments."""
    file = project_root / "systemd" / "60-vehicled.rules"
    return file, [
        line for line in file.read_text().splitlines() if line and not line.startswith("#")
    ]


def test_every_line_is_a_rule(rules):
    for line in rules[1]:
        assert all(PAIR.fullmatch(pair) for pair in line.split(", ")), line


def test_every_jump_goes_forward_to_a_label(rules):
    labels = {}
    for number, line in enumerate(rules[1]):
        if match := re.search(r'LABEL="(\w+)"', line):
            labels[match[1]] = number
    for number, line in enumerate(rules[1]):
        for match in re.finditer(r'GOTO="(\w+)"', line):
            assert labels[match[1]] > number


def test_no_modem_is_sought_behind_the_usual_devices(rules):
    ignored = {
        match[1]
        for line in rules[1]
        if "ID_MM_DEVICE_IGNORE" in line and (match := re.search(r'idVendor\}=="(\w{4})"', line))
    }
    # u-blox, Xsens, MicroStrain, STMicroelectronics (VESC), Arduino, FTDI, CP210x, CH34x
    assert {"1546", "2639", "199b", "0483", "2341", "0403", "10c4", "1a86"} <= ignored
    assert all(vendor == vendor.lower() for vendor in ignored), (
        "udev compares letters as they are, and sysfs has small ones"
    )


def test_latency_and_queue(rules):
    text = "\n".join(rules[1])
    assert 'ATTR{latency_timer}="1"' in text
    assert re.search(r'ATTR\{type\}=="280", ATTR\{tx_queue_len\}="(\d+)"', text)


def test_udev_accepts_them(rules):
    if shutil.which("udevadm") is None:
        pytest.skip("udev is not installed")
    run = subprocess.run(
        ["udevadm", "verify", "--resolve-names=never", str(rules[0])],
        capture_output=True,
        text=True,
        check=False,
    )
    if "nknown" in run.stderr or "nrecognized" in run.stderr:
        pytest.skip("udevadm verify came with systemd 254")
    assert run.returncode == 0, run.stderr + run.stdout
