"""Dumps that real servers wrote and other projects ship, read by jobsleuth and held against what is known of them."""
