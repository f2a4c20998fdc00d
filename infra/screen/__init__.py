"""The live view of `make up`: events in, a few lines at the foot of the terminal out."""
