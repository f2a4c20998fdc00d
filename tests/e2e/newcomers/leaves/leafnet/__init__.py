"""Tells tree species from measurements of their leaves."""
