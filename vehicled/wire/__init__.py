"""What several wire protocols share: finding frames, check sums, device clocks, CAN frames. Pure: nothing here reads a clock."""
