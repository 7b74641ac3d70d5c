#!/bin/sh
# Train the policies of this folder again, into the present folder. Takes some twenty minutes.
set -eu
# The wanted speed is an input besides the published error state: one error of the speed needs another throttle at 1 m/s than at 2.
errors=reference_ahead_m,reference_left_m,reference_heading_rad,reference_speed_mps,target_speed_mps
two="--course circle_r2_ccw_two_speed --course circle_r2_cw_two_speed --course circle_r5_ccw_two_speed --course circle_r5_cw_two_speed"
wide="--course circle_r25_ccw_two_speed --course circle_r25_cw_two_speed"
straight="--course straight_30m_two_speed"
courses="--course circle_r2_ccw --course circle_r2_cw --course square --course sine_tight"
steers="--commands wheel_angle_rad --hidden 32,32"
vehicles="--randomise sim.steering.gain_rad=0.24..0.42 --randomise sim.steering.delay_s=0.25..0.5 --randomise sim.steering.slack_rad=0..0.03
  --randomise sim.drive.friction_nm=0.01..0.03 --randomise sim.drive.stall_torque_nm=0.075..0.105"

vehicled learn collect -o nominal
vehicled learn collect -o two_speed $two $wide $straight
vehicled learn dataset nominal two_speed -o mpc.parquet --features $errors
vehicled learn train mpc.parquet -o art_mpc.onnx --dagger 8 --course circle_r2_ccw_two_speed --course circle_r2_cw_two_speed \
  --course square --course sine_tight --course square:speed_mps=2 $straight --course circle_r5_ccw:speed_mps=2
vehicled learn dataset nominal -o preview.parquet --features preview
vehicled learn train preview.parquet -o art_preview.onnx --dagger 8 $courses $steers
vehicled learn collect -o random $vehicles
vehicled learn dataset random -o random.parquet --features preview
vehicled learn train random.parquet -o art_randomised.onnx --dagger 8 $courses $steers $vehicles

# A person, by the model of one.
slow="--course circle_r2_ccw:speed_mps=0.5 --course circle_r2_cw:speed_mps=0.5 --course straight_30m:speed_mps=0.5"
corners="square:corner_radius_m=0.3,size_m=12"
vehicled learn collect -o person --controller driver_model
vehicled learn collect -o person_two --controller driver_model $two $wide $straight
vehicled learn collect -o person_slow --controller driver_model $slow
vehicled learn collect -o person_pushed --controller driver_model --disturb 0.15 $two $straight \
  --course $corners --course $corners,speed_mps=2 --course $corners,speed_mps=0.6
vehicled learn dataset person person_two person_slow person_pushed -o person.parquet --features $errors
vehicled learn train person.parquet -o art_person.onnx
