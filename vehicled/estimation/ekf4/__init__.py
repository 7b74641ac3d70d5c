"""Extended Kalman filter of four states: position, yaw and speed."""
