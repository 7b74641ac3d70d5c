# The vehicle at the other end of the cables: four USB devices of the kernel's own (dummy_hcd). /dev/ttyGS0 to 3 are the simulator's
# ends, /dev/ttyACM* the daemon's, with the names that the real devices have in /dev/serial/by-id. The fourth is a serial CAN adapter.
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
modprobe libcomposite && modprobe usb_f_acm && modprobe dummy_hcd num=4 || exit

device() { # number name vendor product manufacturer "product's name" serial
    gadget=/sys/kernel/config/usb_gadget/$2
    test -d $gadget && return
    mkdir -p $gadget/strings/0x409 $gadget/configs/c.1/strings/0x409 $gadget/functions/acm.$2
    echo $3 >$gadget/idVendor
    echo $4 >$gadget/idProduct
    echo "$5" >$gadget/strings/0x409/manufacturer
    echo "$6" >$gadget/strings/0x409/product
    test -z "$7" || echo "$7" >$gadget/strings/0x409/serialnumber
    echo acm >$gadget/configs/c.1/strings/0x409/configuration
    ln -s $gadget/functions/acm.$2 $gadget/configs/c.1
    echo dummy_udc.$1 >$gadget/UDC
}

device 0 gnss 0x1546 0x01a9 "u-blox AG - www.u-blox.com" "u-blox GNSS receiver" ""
device 1 imu 0x10c4 0xea60 "Wheeltec" "N100" "0003"
device 2 heading 0x1546 0x01a9 "u-blox AG - www.u-blox.com" "u-blox GNSS receiver" "rover"
device 3 drive 0x16d0 0x117e "Openlight Labs" "CANable" "0001"
sh /bench/simulator.sh
