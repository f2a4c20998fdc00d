"""The cluster that a stack trains on: one of three kinds, side by side."""
