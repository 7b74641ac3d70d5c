"""The live view, bridges, driving by hand and the control socket: operators and other programs talk
to these."""
