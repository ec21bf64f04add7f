"""Checks of repeatable jobs, schedulers and periodic tasks."""
