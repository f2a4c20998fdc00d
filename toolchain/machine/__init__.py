"""The machine that we run on: what it must have, its packages, its container engine."""
