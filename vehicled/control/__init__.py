"""Control: pure numerics from the state estimate to wheel angle, throttle and brake."""
