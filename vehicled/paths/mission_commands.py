"""Commands of MAVLink that a mission may hold, by what they would do to the course. Pure.

Names and numbers are those of MAVLink's ``common.xml`` and ``ardupilotmega.xml``, without
``MAV_CMD_``. Only what moves nothing is left out of a mission; a command that is not listed is
refused, because nobody knows what it moves.
"""

from enum import Enum


class CommandEffect(Enum):
    """Effect of a command; the value says why it cannot be driven, as the rest of a sentence.
    Empty: it can be."""

    DRIVEN = ""
    HARMLESS = "it moves nothing"
    LANDS = "it belongs to take-off and landing"
    CIRCLES = "it circles or waits without a known end"
    PATHS = "it draws another line than a waypoint"
    LEADS = "another program or vehicle would lead"
    JUMPS = "it changes the order of the items"
    TURNS = "it turns the vehicle or points it at a place"
    CONDITIONS = "it holds up the mission until a condition is met"
    SPEEDS = "it changes height or speed in a way of its own"
    CHANGES = "it changes mode, arming, limits, home or parameters on the way"
    REGIONS = "it draws a fence or a rally point, which is no part of the way"
    USER = "its meaning is private to another vehicle"
    OTHER = "it is a request and no item of a mission"


_BY_KIND: dict[CommandEffect, dict[int, str]] = {
    CommandEffect.DRIVEN: {
        16: "NAV_WAYPOINT", 19: "NAV_LOITER_TIME", 20: "NAV_RETURN_TO_LAUNCH", 93: "NAV_DELAY",
        178: "DO_CHANGE_SPEED",
    },
    CommandEffect.HARMLESS: {
        95: "NAV_LAST", 159: "CONDITION_LAST", 181: "DO_SET_RELAY", 182: "DO_REPEAT_RELAY",
        183: "DO_SET_SERVO", 184: "DO_REPEAT_SERVO", 187: "DO_SET_ACTUATOR", 197: "DO_SET_ROI_NONE",
        200: "DO_CONTROL_VIDEO", 202: "DO_DIGICAM_CONFIGURE", 203: "DO_DIGICAM_CONTROL",
        204: "DO_MOUNT_CONFIGURE", 205: "DO_MOUNT_CONTROL", 206: "DO_SET_CAM_TRIGG_DIST",
        211: "DO_GRIPPER", 214: "DO_SET_CAM_TRIGG_INTERVAL", 216: "DO_SPRAYER",
        217: "DO_SEND_SCRIPT_MESSAGE", 220: "DO_MOUNT_CONTROL_QUAT", 240: "DO_LAST",
        260: "OBLIQUE_SURVEY", 405: "ILLUMINATOR_ON_OFF", 406: "DO_ILLUMINATOR_CONFIGURE",
        521: "REQUEST_CAMERA_INFORMATION", 522: "REQUEST_CAMERA_SETTINGS",
        525: "REQUEST_STORAGE_INFORMATION", 526: "STORAGE_FORMAT",
        527: "REQUEST_CAMERA_CAPTURE_STATUS", 528: "REQUEST_FLIGHT_INFORMATION",
        529: "RESET_CAMERA_SETTINGS", 530: "SET_CAMERA_MODE", 531: "SET_CAMERA_ZOOM",
        532: "SET_CAMERA_FOCUS", 533: "SET_STORAGE_USAGE", 534: "SET_CAMERA_SOURCE",
        600: "JUMP_TAG", 1000: "DO_GIMBAL_MANAGER_PITCHYAW", 1001: "DO_GIMBAL_MANAGER_CONFIGURE",
        2000: "IMAGE_START_CAPTURE", 2001: "IMAGE_STOP_CAPTURE",
        2002: "REQUEST_CAMERA_IMAGE_CAPTURE", 2003: "DO_TRIGGER_CONTROL",
        2004: "CAMERA_TRACK_POINT", 2005: "CAMERA_TRACK_RECTANGLE", 2010: "CAMERA_STOP_TRACKING",
        2500: "VIDEO_START_CAPTURE", 2501: "VIDEO_STOP_CAPTURE", 2502: "VIDEO_START_STREAMING",
        2503: "VIDEO_STOP_STREAMING", 2504: "REQUEST_VIDEO_STREAM_INFORMATION",
        2505: "REQUEST_VIDEO_STREAM_STATUS", 2510: "LOGGING_START", 2511: "LOGGING_STOP",
        42501: "GIMBAL_RESET", 42502: "GIMBAL_AXIS_CALIBRATION_STATUS",
        42503: "GIMBAL_REQUEST_AXIS_CALIBRATION", 42505: "GIMBAL_FULL_RESET", 42600: "DO_WINCH",
    },
    CommandEffect.LANDS: {
        21: "NAV_LAND", 22: "NAV_TAKEOFF", 23: "NAV_LAND_LOCAL", 24: "NAV_TAKEOFF_LOCAL",
        84: "NAV_VTOL_TAKEOFF", 85: "NAV_VTOL_LAND", 94: "NAV_PAYLOAD_PLACE",
        188: "DO_RETURN_PATH_START", 189: "DO_LAND_START", 190: "DO_RALLY_LAND",
        191: "DO_GO_AROUND", 208: "DO_PARACHUTE", 3000: "DO_VTOL_TRANSITION",
        30001: "PAYLOAD_PREPARE_DEPLOY", 30002: "PAYLOAD_CONTROL_DEPLOY",
    },
    CommandEffect.CIRCLES: {
        17: "NAV_LOITER_UNLIM", 18: "NAV_LOITER_TURNS", 31: "NAV_LOITER_TO_ALT", 34: "DO_ORBIT",
        35: "DO_FIGURE_EIGHT", 83: "NAV_ALTITUDE_WAIT", 2800: "PANORAMA_CREATE",
    },
    CommandEffect.PATHS: {
        30: "NAV_CONTINUE_AND_CHANGE_ALT", 36: "NAV_ARC_WAYPOINT", 81: "NAV_PATHPLANNING",
        82: "NAV_SPLINE_WAYPOINT",
    },
    CommandEffect.LEADS: {
        25: "NAV_FOLLOW", 32: "DO_FOLLOW", 33: "DO_FOLLOW_REPOSITION", 92: "NAV_GUIDED_ENABLE",
        221: "DO_GUIDED_MASTER", 222: "DO_GUIDED_LIMITS", 42701: "SCRIPTING",
        42702: "NAV_SCRIPT_TIME", 42703: "NAV_ATTITUDE_TIME",
    },
    CommandEffect.JUMPS: {
        177: "DO_JUMP", 224: "DO_SET_MISSION_CURRENT", 252: "OVERRIDE_GOTO", 300: "MISSION_START",
        601: "DO_JUMP_TAG",
    },
    CommandEffect.TURNS: {
        80: "NAV_ROI", 115: "CONDITION_YAW", 194: "DO_SET_REVERSE", 195: "DO_SET_ROI_LOCATION",
        196: "DO_SET_ROI_WPNEXT_OFFSET", 198: "DO_SET_ROI_SYSID", 201: "DO_SET_ROI",
        210: "DO_INVERTED_FLIGHT", 213: "NAV_SET_YAW_SPEED", 43002: "GUIDED_CHANGE_HEADING",
    },
    CommandEffect.CONDITIONS: {
        112: "CONDITION_DELAY", 113: "CONDITION_CHANGE_ALT", 114: "CONDITION_DISTANCE",
        4501: "CONDITION_GATE",
    },
    CommandEffect.SPEEDS: {
        186: "DO_CHANGE_ALTITUDE", 43000: "GUIDED_CHANGE_SPEED", 43001: "GUIDED_CHANGE_ALTITUDE",
    },
    CommandEffect.CHANGES: {
        176: "DO_SET_MODE", 179: "DO_SET_HOME", 180: "DO_SET_PARAMETER",
        185: "DO_FLIGHTTERMINATION", 192: "DO_REPOSITION", 193: "DO_PAUSE_CONTINUE",
        207: "DO_FENCE_ENABLE", 209: "DO_MOTOR_TEST", 212: "DO_AUTOTUNE_ENABLE",
        215: "DO_SET_RESUME_REPEAT_DIST", 218: "DO_AUX_FUNCTION", 223: "DO_ENGINE_CONTROL",
        241: "PREFLIGHT_CALIBRATION", 242: "PREFLIGHT_SET_SENSOR_OFFSETS", 243: "PREFLIGHT_UAVCAN",
        245: "PREFLIGHT_STORAGE", 246: "PREFLIGHT_REBOOT_SHUTDOWN", 262: "DO_SET_STANDARD_MODE",
        310: "ACTUATOR_TEST", 311: "CONFIGURE_ACTUATOR", 400: "COMPONENT_ARM_DISARM",
        420: "INJECT_FAILURE", 4000: "SET_GUIDED_SUBMODE_STANDARD",
        4001: "SET_GUIDED_SUBMODE_CIRCLE", 5300: "DO_SET_SAFETY_SWITCH_STATE",
        42000: "POWER_OFF_INITIATED", 42001: "SOLO_BTN_FLY_CLICK", 42002: "SOLO_BTN_FLY_HOLD",
        42003: "SOLO_BTN_PAUSE_CLICK", 42007: "SET_EKF_SOURCE_SET",
    },
    CommandEffect.REGIONS: {
        5000: "NAV_FENCE_RETURN_POINT", 5001: "NAV_FENCE_POLYGON_VERTEX_INCLUSION",
        5002: "NAV_FENCE_POLYGON_VERTEX_EXCLUSION", 5003: "NAV_FENCE_CIRCLE_INCLUSION",
        5004: "NAV_FENCE_CIRCLE_EXCLUSION", 5100: "NAV_RALLY_POINT",
    },
    CommandEffect.USER: {
        31000: "WAYPOINT_USER_1", 31001: "WAYPOINT_USER_2", 31002: "WAYPOINT_USER_3",
        31003: "WAYPOINT_USER_4", 31004: "WAYPOINT_USER_5", 31005: "SPATIAL_USER_1",
        31006: "SPATIAL_USER_2", 31007: "SPATIAL_USER_3", 31008: "SPATIAL_USER_4",
        31009: "SPATIAL_USER_5", 31010: "USER_1", 31011: "USER_2", 31012: "USER_3", 31013: "USER_4",
        31014: "USER_5",
    },
    CommandEffect.OTHER: {
        401: "RUN_PREARM_CHECKS", 410: "GET_HOME_POSITION", 500: "START_RX_PAIR",
        510: "GET_MESSAGE_INTERVAL", 511: "SET_MESSAGE_INTERVAL", 512: "REQUEST_MESSAGE",
        519: "REQUEST_PROTOCOL_VERSION", 520: "REQUEST_AUTOPILOT_CAPABILITIES",
        2520: "AIRFRAME_CONFIGURATION", 2600: "CONTROL_HIGH_LATENCY",
        3001: "ARM_AUTHORIZATION_REQUEST", 5200: "UAVCAN_GET_NODE_INFO", 10001: "DO_ADSB_OUT_IDENT",
        10151: "LOWEHEISER_SET_STATE", 32000: "CAN_FORWARD", 42004: "FIXED_MAG_CAL",
        42005: "FIXED_MAG_CAL_FIELD", 42006: "FIXED_MAG_CAL_YAW", 42424: "DO_START_MAG_CAL",
        42425: "DO_ACCEPT_MAG_CAL", 42426: "DO_CANCEL_MAG_CAL", 42427: "SET_FACTORY_TEST_MODE",
        42428: "DO_SEND_BANNER", 42429: "ACCELCAL_VEHICLE_POS", 42650: "FLASH_BOOTLOADER",
        42651: "BATTERY_RESET", 42700: "DEBUG_TRAP", 43003: "EXTERNAL_POSITION_ESTIMATE",
        43005: "SET_HAGL",
    },
}  # fmt: skip

COMMANDS: dict[int, tuple[str, CommandEffect]] = {
    number: (name, kind) for kind, names in _BY_KIND.items() for number, name in names.items()
}
"""Name and kind of each command."""


def title(command: int) -> str:
    """Return a command for a message, such as ``command 21 (NAV_LAND)``."""
    name = COMMANDS.get(command, ("",))[0]
    return f"command {command} ({name})" if name else f"command {command}"
