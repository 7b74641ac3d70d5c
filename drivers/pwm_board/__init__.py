"""Driver of the ART vehicle's board, which turns two pulse widths into servo and speed controller
signals."""
