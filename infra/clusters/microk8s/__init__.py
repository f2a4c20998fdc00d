"""MicroK8s on this machine, over the `snap` and `microk8s` commands."""
