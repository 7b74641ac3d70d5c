"""Process of the virtual world: ``python -m vehicled.offline.mixed.child``, with a pipe from the
daemon as its standard input and one to it as its standard output.

It answers one request after the other; the daemon has one under way at a time.
"""

import sys

import msgspec

from vehicled.core.child_process import be_expendable
from vehicled.core.errors import UserError
from vehicled.live.bridges.child import be_modest, frames, read_opening, report
from vehicled.live.bridges.frames import ChildReport
from vehicled.log.frames import HEAD
from vehicled.offline.mixed.virtual_vehicles import VirtualVehicles
from vehicled.offline.mixed.world import VirtualScene
from vehicled.paths.stored import from_bytes
from vehicled.run.mixed_frames import ViewPoint, VirtualView, WorldOpening


def main() -> int:
    """Answer requests until the daemon is gone."""
    be_modest()
    be_expendable()
    pipe = sys.stdin.buffer
    opening = read_opening(pipe, WorldOpening)
    try:
        course = from_bytes(opening.course)
        world = VirtualScene(opening.scene, course, opening.seed, opening.outline)
        vehicles = VirtualVehicles(opening.vehicles, course.datum, opening.outline)
    except UserError as error:
        report(ChildReport(state="failed", detail=str(error)))
        return 1
    report(ChildReport(state="listening"))
    out = sys.stdout.buffer
    for _, payload in frames(pipe):
        view = msgspec.msgpack.decode(payload, type=ViewPoint)
        vehicles.join(world, view.t_ns)
        answer = msgspec.msgpack.encode(VirtualView(world.scan(view), vehicles.take_warnings()))
        try:
            out.write(HEAD.pack(len(answer), 0) + answer)
            out.flush()
        except OSError:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
