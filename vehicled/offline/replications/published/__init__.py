"""Replicas of published estimators and controllers, with their published parameters."""
