"""Wheel encoders behind a microcontroller on a serial line; see NOTES.md."""
