"""Data-sheet parameters of IMUs, and their conversion to a model of the simulator.

``gyro_density`` deg/s/rtHz, ``gyro_instability`` deg/h, ``accelerometer_density`` ug/rtHz,
``accelerometer_instability`` ug, ranges deg/s and g, bandwidths Hz, steps deg/s and mg (0 where the
output is floating point). An instability or bandwidth without a source is 0, which disables it.
Origins name assumed values.
"""

from math import radians
from typing import NamedTuple

from msgspec.structs import replace

from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.profile.sensors import ImuModel


class Unit(NamedTuple):
    """Parameters of one IMU; units in the module docstring."""

    gyro_density: float
    gyro_instability: float
    gyro_bandwidth: float
    accelerometer_density: float
    accelerometer_instability: float
    accelerometer_bandwidth: float
    gyro_range: float
    accelerometer_range: float
    gyro_step: float
    accelerometer_step: float
    origin: str


UNITS = {
    "3dm_cv5": Unit(
        0.0075, 0, 0, 85, 0, 0, 500, 8, 0, 0,
        (
            "MicroStrain 3DM-CV5 and MV5-AR: densities as github.com/leggedrobotics/graph_msf has "
            "them, range of the sheet"
        ),
    ),
    "3dm_gx5_25": Unit(
        0.005, 8, 250, 80, 40, 225, 300, 8, 0, 0,
        "MicroStrain 3DM-GX5-25, secondary sources; bandwidths uncertain",
    ),
    "bmi088": Unit(
        0.014, 2, 116, 175, 0, 145, 2000, 24, 2000 / 32768, 24000 / 32768,
        (
            "Bosch BST-BMI088-DS001: 160 ug in x and y, 190 in z; filters set to 116 and 145 Hz; "
            "instability as its flyer has it"
        ),
    ),
    "bno085": Unit(
        0.014, 0, 0, 150, 0, 0, 2000, 8, 0, 0,
        (
            "CEVA BNO08x sheet for the ranges; gyro density of the BMI055 family that its die is "
            "of, accelerometer assumed alike"
        ),
    ),
    "mpu9250": Unit(
        0.01, 0, 92, 300, 0, 94, 2000, 16, 2000 / 32768, 16000 / 32768,
        (
            "InvenSense PS-MPU-9250A-01, tables 1 and 2: the die of WitMotion's units; filters set "
            "to 92 and 94 Hz"
        ),
    ),
    "mti_1": Unit(
        0.007, 10, 255, 120, 30, 324, 2000, 16, 0, 0,
        "Xsens MTi-1 series; the accelerometer's z has 262 Hz",
    ),
    "mti_10": Unit(0.03, 18, 415, 60, 15, 375, 450, 5, 0, 0, "Xsens MTi 10/100 manual, 10-series"),
    "mti_100": Unit(0.01, 10, 415, 60, 15, 375, 450, 5, 0, 0,
        "Xsens MTi 10/100 manual, 100-series"),
    "mti_630": Unit(0.007, 8, 520, 60, 15, 500, 2000, 10, 0, 0,
        "Xsens MTi-630 sheet; bandwidths uncertain"),
    "n100": Unit(0.01, 20, 100, 200, 60, 100, 2000, 16, 0, 0,
        "Wheeltec N100: nothing is published, every number is assumed"),
    "vn100": Unit(0.0035, 5, 256, 140, 40, 260, 2000, 16, 0, 0, "VectorNav VN-100 sheet"),
}  # fmt: skip


def model_of(model: ImuModel) -> ImuModel:
    """Return the model with the numbers of the data sheet it names; ``table`` leaves it
    unchanged."""
    if model.model == "table":
        return model
    unit = UNITS[model.model]
    return replace(
        model,
        accelerometer_density=unit.accelerometer_density * 1e-6 * STANDARD_GRAVITY_MPS2,
        gyro_density=radians(unit.gyro_density),
        accelerometer_bias_walk=0.0,
        gyro_bias_walk=0.0,
        accelerometer_instability_mps2=unit.accelerometer_instability
        * 1e-6
        * STANDARD_GRAVITY_MPS2,
        gyro_instability_radps=radians(unit.gyro_instability) / 3600.0,
        accelerometer_bandwidth_hz=float(unit.accelerometer_bandwidth),
        gyro_bandwidth_hz=float(unit.gyro_bandwidth),
        range_mps2=unit.accelerometer_range * STANDARD_GRAVITY_MPS2,
        range_radps=radians(unit.gyro_range),
        accelerometer_step_mps2=unit.accelerometer_step * 1e-3 * STANDARD_GRAVITY_MPS2,
        gyro_step_radps=radians(unit.gyro_step),
    )
