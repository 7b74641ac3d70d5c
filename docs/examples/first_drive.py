"""Drive once in simulation, look at the result and at a signal.

python first_drive.py
"""

import numpy as np

import vehicled as v

run = v.simulate("art", "circle_r5_ccw", seed=3, overrides={"limits.max_speed_mps": 2.0})
print(
    "finished" if run.metrics.finished else run.metrics.why,
    f"{run.metrics.cross_track_m.rms:.3f} m RMS off the course",
)

truth = run.messages(v.GroundTruth)
print(f"largest true speed {np.max(truth['speed_mps']):.2f} m/s in {truth['time_s'][-1]:.0f} s")
