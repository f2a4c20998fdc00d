"""A job: its manifest as PyTorchJob and as TrainJob, and its pods, as functions of the configuration."""
