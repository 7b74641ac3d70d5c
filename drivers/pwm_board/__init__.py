"""A board that turns two pulse widths into servo and speed controller signals, as the ART vehicle has it."""
