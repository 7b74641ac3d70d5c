"""The rows of the failsafe matrix, by what they are about. :mod:`vehicled.safety.matrix` is the table."""
