"""The plane world round the vehicle: walls, bodies and moving things, and rays cast against them."""
