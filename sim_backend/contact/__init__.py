"""Contact of the vehicle with the scene: geometry, impulses, and the plant that feels them."""
