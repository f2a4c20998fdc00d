"""Container images that a machine without an image registry builds itself. The tag is a hash of the contents."""
