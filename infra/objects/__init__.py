"""Kubernetes objects as data: manifests, labels, namespaces, and the API that holds them."""
