"""A stand-in for pulumi-language-python: runs the program in the project's own environment."""
