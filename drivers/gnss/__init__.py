"""GNSS receivers of Septentrio and Unicore: one file for each, and what they have in common."""
