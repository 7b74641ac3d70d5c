"""What the computer on the vehicle can do: its state, its measured lateness, and the rates it may claim by them."""
