"""The Kubeflow training-operator: upstream's standalone overlay, patched, and the wait for its webhook."""
