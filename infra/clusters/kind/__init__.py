"""A kind cluster of our own, and its image registry."""
