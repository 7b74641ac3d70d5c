"""Studies: many simulated drives from one file, with a table, a report and figures."""
