"""Drive period by period with your own speed and curvature, as a planner would.

python step_by_step.py
"""

import vehicled as v

simulation = v.Simulation("art", "circle_r5_ccw", seed=3)
seen = simulation.observe()
while seen.time_s < 20.0 and not seen.finished:
    # Weave: a left bend for two seconds, then a right one.
    left = int(seen.time_s) % 4 < 2
    seen = simulation.step(v.Action(speed_mps=0.8, curvature_per_m=0.3 if left else -0.3))
print(
    f"{seen.time_s:.1f} s, {seen.truth.x_m:.2f} m east, {seen.truth.y_m:.2f} m north, "
    f"{seen.mode.name}"
)
