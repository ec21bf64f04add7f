"""Checks about work that nobody does: locks, leases, due times, workers."""
