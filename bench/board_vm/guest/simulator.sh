# Starts the simulated vehicle, unless it runs. $1: port of its motor controller.
# A vehicle does not wait for other programs: real-time priority, below the daemon's.
systemctl --quiet is-active simulator && exit
systemctl reset-failed simulator 2>/dev/null
systemd-run --quiet --unit=simulator --property=CPUSchedulingPolicy=fifo --property=CPUSchedulingPriority=30 \
    /opt/vehicled/bin/vehicled simulator --profile /bench/board.toml \
    --port gnss=serial:/dev/ttyGS0 --port imu=serial:/dev/ttyGS1 --port heading=serial:/dev/ttyGS2 \
    --port drive=${1:-can:slcan:/dev/ttyGS3}
# The commands that open a serial CAN adapter are lost before the simulator reads it.
run=$(systemctl show simulator --property=InvocationID --value)
for i in $(seq 600); do
    journalctl _SYSTEMD_INVOCATION_ID=$run -o cat --no-pager | grep -q 'drive: opened' && exit
    sleep 0.2
done
exit 1
