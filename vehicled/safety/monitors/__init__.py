"""Monitors of the failsafe matrix. They keep the history that the rules need, in constant memory, and decide nothing."""
