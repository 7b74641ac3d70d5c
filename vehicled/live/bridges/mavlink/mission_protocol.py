"""Mission protocol: upload and download of a mission, item by item. Pure; see
https://mavlink.io/en/services/mission.html."""

from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.live.bridges.mavlink.mission import Item, MissionError, check_item, item_of
from vehicled.live.bridges.mavlink.pilot import Pilot
from vehicled.live.bridges.mavlink.places import PlaceError, global_place, local_place
from vehicled.paths.mission import GLOBAL_FRAMES, LOCAL_NED, WAYPOINT

MOST_ITEMS = 2000
TIMEOUT_S, RETRIES = 1.0, 5
MISSION, ALL = int(mav.MAV_MISSION_TYPE_MISSION), int(mav.MAV_MISSION_TYPE_ALL)
GUIDED_ITEM = 2
"""``current`` of an item that is no part of a mission but a place to drive to, as QGroundControl
and Mission Planner send it."""

Peer = tuple[int, int]
"""System and component of a ground station."""


class Upload:
    """Mission that a ground station sends, item by item."""

    def __init__(self, count: int, peer: Peer) -> None:
        self.count, self.peer = count, peer
        self.items: list[Item] = []
        self.due_s = 0.0
        """Time at which the next item is asked for again."""
        self.tries = 0


class MissionProtocol:
    """Exchange of missions with all ground stations; one of them at a time may upload."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self._upload: Upload | None = None

    # ---------------------------------------------------------------- upload

    def on_count(self, message: Any) -> None:
        """Begin an upload."""
        peer = _peer(message)
        if _kind(message) != MISSION:
            self._ack(peer, mav.MAV_MISSION_UNSUPPORTED, _kind(message))
        elif self._upload is not None and self._upload.peer != peer:
            self._refuse(
                peer, mav.MAV_MISSION_DENIED, "another ground station is uploading a mission"
            )
        elif message.count > MOST_ITEMS:
            self._refuse(
                peer, mav.MAV_MISSION_NO_SPACE, f"a mission has at most {MOST_ITEMS} items"
            )
        elif message.count == 0:
            self._clear(peer, MISSION)
        else:
            self._upload = Upload(message.count, peer)
            self._ask_item(self._upload)

    def on_item(self, message: Any) -> None:
        """Take an item of an upload, or a place to drive to."""
        peer, upload = _peer(message), self._upload
        if _kind(message) != MISSION:
            self._ack(peer, mav.MAV_MISSION_UNSUPPORTED, _kind(message))
        elif (
            upload is not None
            and upload.peer == peer
            and message.seq < upload.count
            and message.current < GUIDED_ITEM
        ):
            self._take(upload, message)
        elif message.current == GUIDED_ITEM:
            self._guided(message)
        else:
            self._refuse(
                peer, mav.MAV_MISSION_INVALID_SEQUENCE, f"item {message.seq} was not asked for"
            )

    def _take(self, upload: Upload, message: Any) -> None:
        """Take an item if it is the next one; one that comes again or too early is left out, and
        asked for in its turn."""
        if message.seq != len(upload.items):
            return
        try:
            item = item_of(message)
            # Item 0 is the home position, which ArduPilot's ground stations send along.
            if message.seq > 0:
                check_item(item, message.seq, self._pilot.view.datum)
        except MissionError as error:
            self._upload = None
            self._refuse(upload.peer, error.result, str(error))
            return
        upload.items.append(item)
        upload.tries = 0
        if len(upload.items) < upload.count:
            self._ask_item(upload)
            return
        self._upload = None
        self._pilot.take_mission(
            tuple(upload.items), lambda result, why: self._refuse(upload.peer, result, why)
        )

    def _ask_item(self, upload: Upload) -> None:
        """Ask for the next item, again if it did not come."""
        upload.tries += 1
        if upload.tries > RETRIES:
            self._upload = None
            self._refuse(
                upload.peer,
                mav.MAV_MISSION_OPERATION_CANCELLED,
                "the mission was not sent to its end",
            )
            return
        upload.due_s = self._pilot.view.now_s + TIMEOUT_S
        self._pilot.send(
            mav.MAVLink_mission_request_int_message(*upload.peer, len(upload.items), MISSION)
        )

    def tick(self) -> None:
        """Ask again for an item that is overdue."""
        if self._upload is not None and self._pilot.view.now_s > self._upload.due_s:
            self._ask_item(self._upload)

    def _guided(self, message: Any) -> None:
        """Drive to the place of an item that is no part of a mission."""
        peer, pilot = _peer(message), self._pilot
        try:
            item = item_of(message)
            if item.command != WAYPOINT:
                raise MissionError(
                    mav.MAV_MISSION_UNSUPPORTED, "only a waypoint is a place to drive to"
                )
            x, y = item.meant()[3:5]
            if item.frame == LOCAL_NED:
                place = local_place(LOCAL_NED, None, x, y)  # type: ignore[arg-type]
            elif item.frame in GLOBAL_FRAMES:
                place = global_place(pilot.view.datum, x, y)  # type: ignore[arg-type]
            else:
                raise MissionError(
                    mav.MAV_MISSION_UNSUPPORTED_FRAME,
                    f"coordinate frame {item.frame} is not followed",
                )
        except MissionError as error:
            self._refuse(peer, error.result, str(error))
        except PlaceError as error:
            self._refuse(peer, mav.MAV_MISSION_INVALID_PARAM5_X, str(error))
        else:
            pilot.go_to(
                place, None, None, change_mode=False,
                reply=lambda result, why: self._refuse(peer,
                    mav.MAV_MISSION_DENIED if result else mav.MAV_MISSION_ACCEPTED, why),
            )  # fmt: skip

    # ---------------------------------------------------------------- download and clearing

    def on_list(self, message: Any) -> None:
        """Answer with the number of items."""
        peer = _peer(message)
        if _kind(message) == MISSION:
            self._pilot.send(
                mav.MAVLink_mission_count_message(*peer, len(self._pilot.mission), MISSION)
            )
        else:
            self._ack(peer, mav.MAV_MISSION_UNSUPPORTED, _kind(message))

    def on_request(self, message: Any) -> None:
        """Answer with an item, as it came."""
        peer, mission = _peer(message), self._pilot.mission
        if _kind(message) != MISSION:
            self._ack(peer, mav.MAV_MISSION_UNSUPPORTED, _kind(message))
            return
        if not 0 <= message.seq < len(mission):
            self._ack(peer, mav.MAV_MISSION_INVALID_SEQUENCE, MISSION)
            return
        item = mission[message.seq]
        current = int(message.seq == self._pilot.view.mission_current)
        head = (
            *peer,
            message.seq,
            item.frame,
            item.command,
            current,
            item.autocontinue,
            *item.params,
        )
        if message.get_type() == "MISSION_REQUEST":
            meant = item.meant()
            self._pilot.send(
                mav.MAVLink_mission_item_message(*head, meant.x, meant.y, item.z, MISSION)
            )
        else:
            self._pilot.send(
                mav.MAVLink_mission_item_int_message(*head, item.x, item.y, item.z, MISSION)
            )

    def on_clear(self, message: Any) -> None:
        """Forget the mission."""
        self._clear(_peer(message), _kind(message))

    def on_partial(self, message: Any) -> None:
        """Refuse to exchange a part of a mission."""
        self._ack(_peer(message), mav.MAV_MISSION_UNSUPPORTED, _kind(message))

    def _clear(self, peer: Peer, kind: int) -> None:
        if kind not in (MISSION, ALL):
            self._ack(peer, mav.MAV_MISSION_UNSUPPORTED, kind)
            return
        self._upload = None
        self._pilot.clear_mission()
        self._ack(peer, mav.MAV_MISSION_ACCEPTED, kind)

    def _refuse(self, peer: Peer, result: int, why: str) -> None:
        """Answer with a result, and with the reason of a refusal as a text."""
        if why:
            self._pilot.say(why)
        self._ack(peer, result, MISSION)

    def _ack(self, peer: Peer, result: int, kind: int) -> None:
        self._pilot.send(mav.MAVLink_mission_ack_message(*peer, result, kind))


def _peer(message: Any) -> Peer:
    return message.get_srcSystem(), message.get_srcComponent()


def _kind(message: Any) -> int:
    return int(getattr(message, "mission_type", MISSION))
