"""Upstream's manifests, as upstream publishes them."""
