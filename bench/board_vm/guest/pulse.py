"""Pulses per second: an interrupt of the parallel port at each whole second, which the kernel's
`pps_parport` stamps.

The second is that of the clock at the start, as the simulator counts it: a later step of the clock
moves neither. Needs only the standard library.
"""

import os
import time

CONTROL = 0x37A
"""Register of the first parallel port."""
ACKNOWLEDGE = b"\x1c"
"""Interrupts on, printer selected and not reset: the emulated printer acknowledges."""


def main() -> None:
    """Send pulses until killed."""
    port = os.open("/dev/port", os.O_WRONLY)
    phase_s = (time.time() - time.monotonic()) % 1.0
    while True:
        time.sleep(1.0 - (time.monotonic() + phase_s) % 1.0)
        os.pwrite(port, ACKNOWLEDGE, CONTROL)


if __name__ == "__main__":
    main()
