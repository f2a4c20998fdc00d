"""Container images that a machine without an image registry builds for itself, each tagged by what went into it."""
