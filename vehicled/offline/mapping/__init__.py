"""Maps out of recorded drives: scan matching, pose graph, loop closure, and the grid that the scans
show."""
