"""Checks of what consumer groups of Redis Streams hold, miss and leave behind."""
