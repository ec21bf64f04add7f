"""Checks that hold a record's own claim against the structures."""
