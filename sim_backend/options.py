"""Options of the simulator, made into the setup of a world."""

from argparse import Namespace

from sim_backend.emulators.failures import parse_failure
from sim_backend.emulators.registry import check_emulators, check_failures
from sim_backend.profile_check import resolved_profile
from sim_backend.scenario import Start
from sim_backend.world import WorldSetup
from vehicled.paths import scenes
from vehicled.paths.catalog import load_course
from vehicled.profile import load
from vehicled.profile.latency import latency_overrides


def world_setup(options: Namespace) -> WorldSetup:
    """Load and check what the options of :func:`vehicled.runtime.simulator.add_options` name.
    Raises :class:`~vehicled.core.errors.UserError`."""
    scene = [f"sim.scene={scenes.absolute(options.scene)}"] if options.scene else []
    scene += ["sim.contact=end"] if options.end_on_contact else []
    loaded = load(
        options.profile, [*options.set, *scene, *latency_overrides(options.latency or "")]
    )
    vehicle = loaded.profile.vehicle
    named = (
        scenes.course_in(scenes.absolute(options.scene), options.course or "")
        if options.scene
        else options.course
    )
    course = load_course(
        named or loaded.profile.course,
        width_m=vehicle.width_m,
        centre_m=vehicle.centre_m,
        turn_radius_m=vehicle.min_turn_radius_m,
    )
    # A vehicle that the scenario does not arm starts on the course.
    start: Start | None = "stand" if options.by_hand or options.port else options.start
    profile = resolved_profile(loaded, course, start)
    wires = options.link == "wires" or options.ptys is not None or options.port is not None
    if wires:
        check_emulators(profile)
    failures = [parse_failure(text) for text in options.fail]
    check_failures(profile, failures, wires=wires)
    return WorldSetup(
        profile=profile, course=course, seed=options.seed, wires=wires, failures=failures,
        scenario=not options.by_hand, start=start,
    )  # fmt: skip
