"""This machine: what it must have, its packages, its container engine."""
