"""Local planner: a path beside the course round what stands and moves in the way, and back."""
