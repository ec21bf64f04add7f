"""Checks about which structure holds which id."""
