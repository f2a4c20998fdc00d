"""`storage.shared: true` is held to its word: one node writes a file, and all others have to see it."""
