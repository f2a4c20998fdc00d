"""A cluster that is there, reached by a kubeconfig."""
