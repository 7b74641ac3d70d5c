"""``vehicled log export``: a log in the formats of other tools."""
