"""Finds the numbers of a twin in recorded drives, with how far they may be off."""
