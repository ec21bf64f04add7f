"""Checks of the numbers that the libraries keep."""
