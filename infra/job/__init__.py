"""The PyTorchJob: its manifest as a function of the configuration, and the component that registers it."""
