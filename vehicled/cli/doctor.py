"""``vehicled doctor``: what this machine has, what answers on its ports, and what to do about what is missing."""

from argparse import Namespace

import anyio

from vehicled.cli.show import print_table
from vehicled.registry import names, resolve
from vehicled.runtime import realtime
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.ports.discover import SerialDevice, discover, udev_rule
from vehicled.runtime.ports.probe import Answer, probe

_READ_ONLY = realtime.RealtimeRequest(
    lock_memory=False, fifo_priority=None, timer_slack_ns=None, freeze_gc=False, switch_interval_s=None
)


def doctor(arguments: Namespace) -> int:
    """Report; status 1 when a port was asked to be probed and nothing on it was understood."""
    found = discover()
    understood = True
    rows = []
    for device in found.serial:
        answer = anyio.run(_probe, device, backend_options={"loop_factory": new_event_loop}) if arguments.probe else None
        understood &= answer is None or bool(answer.driver)
        rows.append([device.url, _who(device), _access(device), _heard(answer)])
    rows += [[can.url, can.driver, "up" if can.up else f"down: ip link set {can.name} up", ""] for can in found.can]
    if rows:
        print_table("ports", ["address for a profile", "device", "state", "heard" if arguments.probe else ""], rows)
    else:
        print("no serial port and no CAN interface was found\n")
    rules = [rule for device in found.serial if not device.by_id and (rule := udev_rule(device, f"vehicled-{device.product_id}"))]
    if rules:
        print("ports without a name of their own; for /etc/udev/rules.d/70-vehicled-names.rules, with the link named as you like:")
        print("\n".join(f"  {rule}" for rule in rules) + "\n")
    print("this machine, as it is (vehicled run and sim --clock wall ask for more, and log what they got):")
    print(realtime.setup(_READ_ONLY).to_text())
    return 0 if understood else 1


async def _probe(device: SerialDevice) -> Answer:
    return await probe(device.url, {name: resolve("decoder", name) for name in names("decoder")})


def _who(device: SerialDevice) -> str:
    usb = f"{device.vendor_id}:{device.product_id}" if device.vendor_id else ""
    return " ".join(filter(None, [device.manufacturer, device.product, usb, device.driver])) or "unknown"


def _access(device: SerialDevice) -> str:
    if not device.accessible:
        return "no access: sudo usermod -aG dialout $USER, then log in anew"
    if device.latency_ms is not None and device.latency_ms > 1:
        return f"latency timer {device.latency_ms} ms: install systemd/60-vehicled.rules"
    return "ready"


def _heard(answer: Answer | None) -> str:
    if answer is None:
        return ""
    if answer.trouble:
        return answer.trouble
    if not answer.bytes:
        return "silent at every line rate (a device that speaks only when asked is silent too)"
    if not answer.driver:
        return f"{answer.bytes} bytes at {answer.baud} baud that no decoder understands"
    kinds = ", ".join(f"{kind} {rate:.1f} Hz" for kind, rate in answer.messages[:5])
    return f"{answer.driver} at {answer.baud} baud: {kinds}; arrivals at most {answer.gap_p99_ms:.1f} ms apart (99 %)"
