# Makes can0 of the serial CAN adapter, as a vehicle's owner does.
adapter=/dev/serial/by-id/usb-Openlight_Labs_CANable_0001-if00
for i in $(seq 100); do
    test -e $adapter && break
    sleep 0.1
done
modprobe slcan
for i in $(seq 100); do
    # The adapter takes no bytes yet: slcand says "Resource temporarily unavailable".
    ip link show can0 >/dev/null 2>&1 || slcand -o -c -s6 $adapter can0
    ip link set can0 up 2>/dev/null && exit
    sleep 0.1
done
exit 1
