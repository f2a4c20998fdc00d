"""The volume that keeps the models: its claim, the PersistentVolume where it is ours, and the folder behind it."""
