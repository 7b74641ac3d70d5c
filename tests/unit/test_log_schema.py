"""Channels, header, file names and masking of secrets."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core import messages
from vehicled.log import schema
from vehicled.log.errors import LogError
from vehicled.log.schema import (
    CHANNELS,
    LOG_VERSION,
    ChunkStream,
    RunHeader,
    TaskRow,
    age_key,
    is_log_name,
    log_stem,
    part_name,
    redact,
    redact_arguments,
    schema_of,
)


def header(**changes):
    values: dict[str, Any] = {
        "run_id": "0123456789abcdef", "start_wall_ns": 1_790_000_000_123_456_789,
        "start_monotonic_ns": 1_000_000_000, "profile": "art", "course": "lot17",
        "tasks": [TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)], "seed": 7,
        "argv": ["vehicled", "sim"], "fingerprint_of": {"numpy": "2.4"}, "holders": ["serial"],
    }  # fmt: skip
    return RunHeader(**(values | changes))


def test_every_message_type_has_one_channel_and_a_ros_schema():
    assert set(CHANNELS) == set(messages.ALL)
    assert len({channel.id for channel in CHANNELS.values()}) == len(CHANNELS)
    assert len({channel.topic for channel in CHANNELS.values()}) == len(CHANNELS)
    assert CHANNELS[messages.WireChunk].topic == "/vehicled/wire_chunk"
    assert CHANNELS[messages.ImuSample].topic == "/vehicled/imu_sample"
    for message in CHANNELS:
        name, text = schema_of(message)
        assert name == f"vehicled_msgs/msg/{message.__name__}"
        assert message.__struct_fields__[0] in text


def test_inputs_of_the_machine_are_lossless():
    lossless = {
        message
        for message, channel in CHANNELS.items()
        if channel.stream is not ChunkStream.DERIVED
    }
    assert lossless >= {
        messages.WireChunk,
        messages.TaskTick,
        messages.OperatorCommand,
        messages.PortEvent,
    }
    assert messages.StateEstimate not in lossless


def test_header_survives_its_metadata_record():
    original = header()
    assert RunHeader.from_metadata(original.to_metadata()) == original
    assert original.offset_ns == 1_790_000_000_123_456_789 - 1_000_000_000


def test_header_of_an_older_and_of_a_richer_writer_is_read():
    metadata = header().to_metadata()
    del metadata["realtime"]
    metadata["weather"] = '"rain"'
    assert RunHeader.from_metadata(metadata).realtime == {}


def test_header_of_a_newer_log_version_says_update():
    metadata = header().to_metadata() | {
        "log_version": str(LOG_VERSION + 1),
        "vehicled_version": "9.9",
    }
    with pytest.raises(LogError, match=r"vehicled 9\.9.*update"):
        RunHeader.from_metadata(metadata)


@pytest.mark.parametrize(
    "metadata", [{}, {"run_id": "x"}, header().to_metadata() | {"tasks": "[["}]
)
def test_malformed_header_is_a_log_error(metadata):
    with pytest.raises(LogError, match="header"):
        RunHeader.from_metadata(metadata)


def test_secrets_never_reach_the_header_record():
    argv = [
        "vehicled",
        "run",
        "--set",
        "devices.ntrip.password=hunter2",
        "--token",
        "abc def",
        "tcp://user:geheim@caster:2101",
    ]
    text = "".join(header(argv=argv).to_metadata().values())
    for secret in ("hunter2", "abc def", "geheim", "user:"):
        assert secret not in text
    assert "devices.ntrip.password" in text


def test_redaction_of_a_profile_keeps_references_and_everything_else():
    profile = (
        'url = "ntrip://joe:pw1@host/MP"\npassword = "pw2"\napi_key = pw3\n'
        'password_file = "/run/cred"\ntoken = "credential:ntrip"\nrate_hz = 5\n'
    )
    masked = redact(profile)
    assert not any(secret in masked for secret in ("pw1", "pw2", "pw3", "joe"))
    for kept in (
        'password_file = "/run/cred"',
        'token = "credential:ntrip"',
        "rate_hz = 5",
        "host/MP",
    ):
        assert kept in masked
    assert redact_arguments(["--rate", "5"]) == ["--rate", "5"]


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWD", "wifi.Passphrase", "paſſword", "secret", "toKen", "ApiKey", "api_key"],
)
def test_every_spelling_of_a_secret_is_masked(key: str):
    assert redact(f"{key} = hunter2") == f'{key} = "***"'


def test_a_text_without_secrets_is_not_searched_number_by_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema, "_ASSIGNED", None)
    monkeypatch.setattr(schema, "_IN_URL", None)
    course = '{"name":"circle","x_m":[0.0,0.1,0.2],"y_m":[5.0,5.0,5.0]}'
    assert redact(course) == course


@given(st.text(max_size=80), st.integers(0, 2**62), st.integers(0, 2**32))
def test_names_we_give_are_names_the_quota_knows(course, wall_ns, run):
    stem = log_stem("art", course, wall_ns, f"{run:08x}")
    assert is_log_name(part_name(stem, 1))
    assert is_log_name(part_name(stem, 12))
    assert not is_log_name(stem + "_recovered.mcap")


def test_name_says_profile_course_utc_and_run():
    assert (
        log_stem("art", "/tmp/My Course.csv", 1_790_000_000 * 10**9, "abcdef99")
        == "art_my_course_20260921T141320Z_abcdef"
    )


def test_age_sorts_runs_by_time_and_parts_by_number():
    parts = [f"a_b_20260102T000000Z_000000_part{n}.mcap" for n in (2, 10)]
    names = ["z_a_20260101T000000Z_aaaaaa.mcap", "a_b_20260102T000000Z_000000.mcap", *parts]
    assert sorted([names[2], names[0], names[3], names[1]], key=age_key) == names


def test_metadata_values_are_text():
    assert all(isinstance(value, str) for value in header().to_metadata().values())
    assert msgspec.json.decode(header().to_metadata()["tasks"])[0]["name"] == "control"
