"""The volume of the models: its claim, our PersistentVolume if there is one, and the folder behind it."""
