"""Virtual world of mixed reality: a process beside the daemon that casts scans of virtual bodies
from the vehicle's estimated pose."""
