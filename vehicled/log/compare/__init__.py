"""``vehicled log compare``: what became better or worse between two builds, two profiles, two machines, with its uncertainty."""
