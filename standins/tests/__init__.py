"""The plugin stand-ins, against a real API server."""
