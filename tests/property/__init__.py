"""Keyspaces made up at random, stored by a real server, read back by jobsleuth."""
