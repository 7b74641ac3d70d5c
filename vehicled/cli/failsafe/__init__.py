"""``vehicled failsafe``: the failsafe matrix as a table, and every row of it injected into a drive and measured."""
