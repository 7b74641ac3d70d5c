"""State estimation: pure numerics from measurements and their times to the pose and speed of the
rear axle."""
