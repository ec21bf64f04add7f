"""Checks of what a job's record holds."""
