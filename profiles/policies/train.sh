#!/bin/sh
# Train the policies of this folder again, into the present folder. Takes some ten minutes.
set -eu
courses="--course circle_r2_ccw --course circle_r2_cw --course square --course sine_tight"
steers="--commands wheel_angle_rad --hidden 32,32"
vehicles="--randomise sim.steering.gain_rad=0.24..0.42 --randomise sim.steering.delay_s=0.25..0.5 --randomise sim.steering.slack_rad=0..0.03
  --randomise sim.drive.friction_nm=0.01..0.03 --randomise sim.drive.stall_torque_nm=0.075..0.105"

vehicled learn collect -o nominal
vehicled learn dataset nominal -o mpc.parquet
vehicled learn train mpc.parquet -o art_mpc.onnx --dagger 8 $courses
vehicled learn dataset nominal -o preview.parquet --features preview
vehicled learn train preview.parquet -o art_preview.onnx --dagger 8 $courses $steers
vehicled learn collect -o random $vehicles
vehicled learn dataset random -o random.parquet --features preview
vehicled learn train random.parquet -o art_randomised.onnx --dagger 8 $courses $steers $vehicles
