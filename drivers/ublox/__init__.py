"""Driver of u-blox GNSS receivers of generation 9: RTK position, moving-base heading,
corrections."""
