"""The page of a fleet in a browser: it shows all vehicles, leads to the page of each, and stops
them."""

import json

import pytest

from tests.busy_computer import DEADLINE_S
from tests.closed_loop.browser import browser, executable
from tests.fleet_view_picture import shown_fleet

pytestmark = [
    pytest.mark.xdist_group("wall"),
    pytest.mark.skipif(executable() is None, reason="no Chromium is installed"),
]


def test_the_page_shows_all_vehicles_and_stops_one_or_all(tmp_path):
    vehicles = "a=art,course=circle_r25_ccw", "b=art,course=circle_r25_ccw,from_m=20"
    options = [word for each in vehicles for word in ("--vehicle", each)]
    with (
        shown_fleet(*options, "--duration", "60") as (process, url),
        browser(tmp_path / "browser") as tab,
    ):
        tab.size(390, 844, dark=True, mobile=True)
        tab.open(url)
        speeds = "[...document.querySelectorAll('.speed')].map(each => parseFloat(each.innerText))"
        tab.until(f"{speeds}.length === 2 && {speeds}.every(speed => speed > 0.3)")
        assert "#" not in tab.value("location.href")
        assert tab.value("document.documentElement.scrollWidth") <= 390
        links = tab.value("[...document.querySelectorAll('#vehicles a')].map(each => each.href)")
        tab.value("document.querySelectorAll('#vehicles button')[1].click()")
        tab.until("document.querySelectorAll('.mode.faulty').length === 1")
        assert "emergency stop by fleet page" in tab.value("document.body.innerText")
        assert tab.complaints == []
        tab.open(links[0])
        tab.until("document.getElementById('mode').innerText === 'AUTO'")
        tab.open(url)
        tab.until("document.querySelectorAll('#vehicles button').length === 2")
        tab.value("document.getElementById('stop-all').click()")
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    for each in json.loads(out)["vehicles"]:
        assert "emergency stop by fleet page" in each["why"]
