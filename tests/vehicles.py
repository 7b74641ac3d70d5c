"""The vehicle of the tests: a small car like the ART, and variants of it with some numbers
changed."""

from msgspec.structs import replace

from vehicled.core.vehicle import Drive, Steering, Vehicle

DRIVE = Drive(
    stall_torque_nm=0.09, no_load_speed_radps=161.185, friction_nm=0.02, viscous_nms=1e-4,
    gear_ratio=1 / 3, wheel_radius_m=0.08451952624, inertia_kgm2=1e-3, delay_s=0.1,
)  # fmt: skip
STEERING = Steering(gain_rad=0.335, max_wheel_rad=0.335, rate_radps=0.67, delay_s=0.4)
VEHICLE = Vehicle(
    wheelbase_m=0.5, track_m=0.4, length_m=0.8, width_m=0.45, mass_kg=6.0, steering=STEERING,
    drive=DRIVE
)  # fmt: skip


def make_drive(**changes: float) -> Drive:
    """Return ``DRIVE`` with some numbers changed."""
    return replace(DRIVE, **changes)


def make_steering(**changes: float) -> Steering:
    """Return ``STEERING`` with some numbers changed."""
    return replace(STEERING, **changes)


def make_vehicle(steering: Steering = STEERING, drive: Drive = DRIVE, **body: float) -> Vehicle:
    """Return ``VEHICLE`` with the given actuators; ``body`` changes its dimensions or mass."""
    return replace(VEHICLE, steering=steering, drive=drive, **body)
