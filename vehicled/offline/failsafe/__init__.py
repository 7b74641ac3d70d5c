"""Command ``vehicled failsafe``: print the failsafe matrix, or test it by fault injection into
simulated drives."""
