"""Damaged evidence: every byte changed, every length cut, and a clear verdict each time."""
