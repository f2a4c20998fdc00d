"""MicroK8s on this machine, by the commands `snap` and `microk8s`."""
