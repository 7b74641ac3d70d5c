"""Clients of the control protocol, as ``vehicled new client`` writes them, and their test."""
