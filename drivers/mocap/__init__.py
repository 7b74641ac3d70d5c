"""Motion capture: poses of rigid bodies from cameras in a room."""
