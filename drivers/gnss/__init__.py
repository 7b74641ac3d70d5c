"""GNSS receivers of Septentrio and Unicore: one file for each, and what all receivers have in
common."""
