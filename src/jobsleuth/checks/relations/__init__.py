"""Checks of flows: parents, children, and what they wait for."""
