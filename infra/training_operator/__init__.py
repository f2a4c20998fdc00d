"""The Kubeflow training-operator: upstream's manifests, patched, and the wait for its webhook."""
