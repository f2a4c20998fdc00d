"""The runs on this machine: what was trained, with what, and how well. Reads files below models/, nothing else."""
