"""Kueue: upstream's controller of queues, patched, and a stack's quota as its objects."""
