# Starts the simulated vehicle, with its motor controller on the bus of the first argument. "keep": only if it does not run.
drive=can:slcan:/dev/ttyGS3
case $1 in
keep) systemctl --quiet is-active simulator && exit ;;
?*) drive=$1 ;;
esac
systemctl --quiet stop simulator 2>/dev/null
systemctl reset-failed simulator 2>/dev/null
systemd-run --quiet --unit=simulator --property=Nice=-5 /opt/vehicled/bin/vehicled simulator --profile /bench/board.toml \
    --port gnss=serial:/dev/ttyGS0 --port imu=serial:/dev/ttyGS1 --port heading=serial:/dev/ttyGS2 --port drive=$drive
# The commands that open a serial CAN adapter are lost before the simulator reads it.
run=$(systemctl show simulator --property=InvocationID --value)
for i in $(seq 600); do
    journalctl _SYSTEMD_INVOCATION_ID=$run -o cat --no-pager | grep -q "drive: opened" && exit
    sleep 0.2
done
exit 1
