"""Composition of a run: profile, course, link, log and machine put together, driven to an end, and
its result."""
