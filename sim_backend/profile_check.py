"""Check of a profile's simulation part before the run: its files are found and read once, so that
mistakes appear at the start."""

from sim_backend.contact.fit import check_scene
from sim_backend.plant.double_track.checks import check
from sim_backend.plant.registry import plant_class
from sim_backend.plant.twin_file import anchored as anchored_twin
from sim_backend.plant.twin_file import load_twin
from sim_backend.scenario import Start
from sim_backend.scene.anchor import anchored as anchored_world
from sim_backend.scene.reading import load_scene, with_ground
from sim_backend.scene.traffic import lanes_of
from sim_backend.sensors.gnss_replayed import ReplayedGnssError
from sim_backend.sensors.gnss_zones import with_zones
from sim_backend.terrain.reading import load_terrain
from vehicled.paths.course import Course
from vehicled.profile import Loaded, Problem, Profile, ProfileError


def resolved_profile(loaded: Loaded, course: Course, start: Start | None = None) -> Profile:
    """Return the profile with absolute paths of its files and the ground of its scene. ``start`` is
    the way in which the vehicle finds its heading; None: as the profile asks. Raises
    :class:`~vehicled.core.errors.UserError`.
    """
    profile = with_ground(
        anchored_twin(anchored_world(loaded.profile, loaded.path), loaded.path), course
    )
    sim = profile.sim
    check_scene(load_scene(sim.scene, course), profile, course, start)
    lanes_of(sim.traffic, sim.scene, course.datum)
    with_zones(sim.gnss, course.datum)
    if sim.gnss.model == "replayed":
        ReplayedGnssError(sim.gnss, 0)
    load_terrain(sim.terrain)
    plant_class(sim.plant)
    if sim.twin is not None:
        twin = load_twin(sim.twin.vehicle, sim.twin.changes)
        # Rounded like the grid of the world.
        problems = check(twin.parameters, round(sim.step_ms * 1e6) * 1e-9)
        if problems:
            raise ProfileError(
                [Problem("sim.step_ms", f"{key} of the twin {reason}") for key, reason in problems],
                loaded.path,
            )
    return profile
