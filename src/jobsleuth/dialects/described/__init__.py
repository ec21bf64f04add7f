"""Queues whose layout is described, not programmed: what plain lists and home-made layouts share."""
