"""``vehicled log import``: other people's logs as ours."""
