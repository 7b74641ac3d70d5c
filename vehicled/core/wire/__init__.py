"""Shared wire protocol parts: framing, checksums, device clocks, CAN frames. Pure, without reading
a clock."""
