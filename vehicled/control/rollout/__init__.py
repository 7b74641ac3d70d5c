"""Controller that predicts many paths beside the course and drives the best one."""
