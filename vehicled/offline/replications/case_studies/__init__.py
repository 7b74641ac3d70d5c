"""Case studies of the published AutoDRIVE work: one stack on vehicles of all sizes, each drive
judged by the criteria of its task."""
