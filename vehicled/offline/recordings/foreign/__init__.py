"""``vehicled log import``: converts logs of other programs to ours."""
