"""The volume that keeps the models: a hostPath PersistentVolume, its claim, and the folder on the node."""
