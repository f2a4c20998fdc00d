"""An existing cluster, reached by a kubeconfig."""
