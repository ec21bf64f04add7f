"""Checks of plain lists and of layouts that the user described."""
