"""The cluster that a stack trains on: a folder for each kind, side by side."""
