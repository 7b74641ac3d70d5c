"""Shape of a stick: dead band and curve, alike for gamepads and RC handsets."""


def shaped(share: float, dead_zone: float, expo: float) -> float:
    """Return a deflection of -1 to 1 without its dead band, the rest scaled to the full range, and
    bent.

    ``dead_zone``: fraction around the centre that counts as zero, below 1. ``expo``: 0 is linear, 1
    cubic: fine near the centre.
    """
    beyond = max(0.0, abs(share) - dead_zone) / (1.0 - dead_zone)
    bent = (1.0 - expo) * beyond + expo * beyond * beyond * beyond
    return (bent if share >= 0.0 else -bent) + 0.0
