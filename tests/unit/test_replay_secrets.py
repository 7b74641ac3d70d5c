"""Journal entries of a login do not depend on the password, so a replay needs none."""

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from vehicled.core.messages import Corrections, PortState
from vehicled.core.ports import Send, TakesSecret
from vehicled.offline.replay.setup import SECRET


def journal_of(secret: str) -> list[bytes]:
    params = NtripParams(
        mountpoint="NEAR", host="caster.example", user="me", password_file="anywhere"
    )
    device = NtripDevice(params, [Corrections], 50_000_000)
    assert isinstance(device, TakesSecret)
    assert device.secret_ref is not None
    device.set_secret(secret)
    device.on_port(PortState.OPENED, "tcp+tls://caster.example:443", 1_000_000_000)
    return [action.journal for action in device.take_tx() if isinstance(action, Send)]


def test_any_password_gives_the_same_journal() -> None:
    mine = journal_of("correct horse battery staple")
    assert mine
    assert mine == journal_of("x") == journal_of(SECRET)
    assert not any(b"correct horse" in data for data in mine)
