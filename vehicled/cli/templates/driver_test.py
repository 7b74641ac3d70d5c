"""Test of template_file.py. Run it with ``python -m pytest test_template_file.py``."""

from functools import reduce
from operator import xor

import pytest
from template_file import TemplateClass

from vehicled.core.messages import ImuSample


def line(*values: float) -> bytes:
    """Return a line of the device."""
    body = ",".join(["IMU", *(f"{value:.6f}" for value in values)]).encode()
    return b"$%b*%02X\r\n" % (body, reduce(xor, body, 0))


LINES = line(0.1, 0.2, 0.3, 0.0, 0.0, 9.8) + line(0.0, 0.0, 0.0, 1.0, 2.0, 3.0)


@pytest.mark.parametrize("size", [1, 7, len(LINES)])
def test_lines_are_read_however_they_are_cut(size: int) -> None:
    """Bytes arrive in any portions."""
    device = TemplateClass(TemplateClass.Params(), [ImuSample], 0)
    found = [
        sample
        for k in range(0, len(LINES), size)
        for sample in device.on_rx(LINES[k : k + size], 10_000_000)
    ]
    assert [sample.angular_rate_radps for sample in found] == [(0.1, 0.2, 0.3), (0.0, 0.0, 0.0)]
    assert found[0].t_ns == 8_000_000


def test_noise_costs_only_the_lines_that_it_hits() -> None:
    """Damaged lines are counted, and the next one is read."""
    device = TemplateClass(TemplateClass.Params(), [ImuSample], 0)
    assert (
        len(device.on_rx(b"\xff\x00$IMU,1,2*00\n" + LINES.replace(b"0.2", b"0.7") + LINES, 0)) == 3
    )
    assert device.bad_lines == 2
