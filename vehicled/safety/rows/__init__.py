"""Rows of the failsafe matrix, one module per subject. :mod:`vehicled.safety.matrix` joins them
into the table."""
