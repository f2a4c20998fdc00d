"""The runs on this machine: what was trained, with which configuration and result. Reads only files below models/."""
