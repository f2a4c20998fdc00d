"""The run of a PyTorchJob: waits for its end, shows its progress, reads its metrics."""
