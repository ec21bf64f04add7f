"""Checks of keys that keep a job from being added again."""
