"""Extended Kalman filter equal to that of the ROS package robot_localization, as a judge: see
``docs/robot_localization.md``."""
