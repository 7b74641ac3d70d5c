"""Message types of Autoware's vehicle interface, in the notation of :mod:`~vehicled.ros.standard`.

autoware_msgs 1.12 (autoware_control_msgs, autoware_vehicle_msgs, autoware_planning_msgs),
autoware_adapi_msgs 1.9 (autoware_adapi_v1_msgs), tier4_vehicle_msgs, and autoware_auto_msgs, which
Autoware used until 2024: its reports and commands differ from the newer ones only in their names.
"""

GEARS = (
    "NONE", "NEUTRAL", "DRIVE", *(f"DRIVE_{n}" for n in range(2, 19)), "REVERSE", "REVERSE_2",
    "PARK", "LOW", "LOW_2",
)  # fmt: skip
"""Names of the values of GearCommand and GearReport."""
_GEARS = ", ".join(f"uint8 {name}={number}" for number, name in enumerate(GEARS))
_VEHICLE = f"""
PACKAGE/VelocityReport: std_msgs/Header header, float32 longitudinal_velocity,
    float32 lateral_velocity, float32 heading_rate
PACKAGE/SteeringReport: builtin_interfaces/Time stamp, float32 steering_tire_angle
PACKAGE/ControlModeReport: uint8 NO_COMMAND=0, uint8 AUTONOMOUS=1, uint8 AUTONOMOUS_STEER_ONLY=2,
    uint8 AUTONOMOUS_VELOCITY_ONLY=3, uint8 MANUAL=4, uint8 DISENGAGED=5, uint8 NOT_READY=6,
    builtin_interfaces/Time stamp, uint8 mode
PACKAGE/GearCommand: {_GEARS}, builtin_interfaces/Time stamp, uint8 command
PACKAGE/GearReport: {_GEARS}, builtin_interfaces/Time stamp, uint8 report
PACKAGE/TurnIndicatorsCommand: uint8 NO_COMMAND=0, uint8 DISABLE=1, uint8 ENABLE_LEFT=2,
    uint8 ENABLE_RIGHT=3, builtin_interfaces/Time stamp, uint8 command
PACKAGE/TurnIndicatorsReport: uint8 DISABLE=1, uint8 ENABLE_LEFT=2, uint8 ENABLE_RIGHT=3,
    builtin_interfaces/Time stamp, uint8 report
PACKAGE/HazardLightsCommand: uint8 NO_COMMAND=0, uint8 DISABLE=1, uint8 ENABLE=2,
    builtin_interfaces/Time stamp, uint8 command
PACKAGE/HazardLightsReport: uint8 DISABLE=1, uint8 ENABLE=2,
    builtin_interfaces/Time stamp, uint8 report
"""
_PLANNING = """
PACKAGE/TrajectoryPoint: builtin_interfaces/Duration time_from_start, geometry_msgs/Pose pose,
    float32 longitudinal_velocity_mps, float32 lateral_velocity_mps, float32 acceleration_mps2,
    float32 heading_rate_rps, float32 front_wheel_angle_rad, float32 rear_wheel_angle_rad
PACKAGE/Trajectory: CAPACITY std_msgs/Header header, PACKAGE/TrajectoryPoint[] points
"""
AUTOWARE = (
    """
autoware_control_msgs/Lateral: builtin_interfaces/Time stamp, builtin_interfaces/Time control_time,
    float32 steering_tire_angle, float32 steering_tire_rotation_rate,
    bool is_defined_steering_tire_rotation_rate
autoware_control_msgs/Longitudinal: builtin_interfaces/Time stamp,
    builtin_interfaces/Time control_time, float32 velocity, float32 acceleration, float32 jerk,
    bool is_defined_acceleration, bool is_defined_jerk
autoware_control_msgs/Control: builtin_interfaces/Time stamp, builtin_interfaces/Time control_time,
    autoware_control_msgs/Lateral lateral, autoware_control_msgs/Longitudinal longitudinal

autoware_auto_control_msgs/AckermannLateralCommand: builtin_interfaces/Time stamp,
    float32 steering_tire_angle, float32 steering_tire_rotation_rate
autoware_auto_control_msgs/LongitudinalCommand: builtin_interfaces/Time stamp,
    float32 speed, float32 acceleration, float32 jerk
autoware_auto_control_msgs/AckermannControlCommand: builtin_interfaces/Time stamp,
    autoware_auto_control_msgs/AckermannLateralCommand lateral,
    autoware_auto_control_msgs/LongitudinalCommand longitudinal

autoware_adapi_v1_msgs/LocalizationInitializationState: uint16 UNKNOWN=0, uint16 UNINITIALIZED=1,
    uint16 INITIALIZING=2, uint16 INITIALIZED=3, builtin_interfaces/Time stamp, uint16 state

tier4_vehicle_msgs/VehicleEmergencyStamped: builtin_interfaces/Time stamp, bool emergency
"""
    + _VEHICLE.replace("PACKAGE", "autoware_vehicle_msgs")
    + _VEHICLE.replace("PACKAGE", "autoware_auto_vehicle_msgs")
    + _PLANNING.replace("PACKAGE", "autoware_planning_msgs").replace("CAPACITY ", "")
    + _PLANNING.replace("PACKAGE", "autoware_auto_planning_msgs").replace(
        "CAPACITY ", "uint32 CAPACITY=10000, "
    )
)
"""Descriptions of all types."""
