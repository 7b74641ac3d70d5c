"""Driver of VESC motor controllers, over CAN and over a serial line."""
