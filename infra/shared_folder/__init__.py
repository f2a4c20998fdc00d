"""Checks `storage.shared: true`: one node writes a file, and all other nodes have to see it."""
