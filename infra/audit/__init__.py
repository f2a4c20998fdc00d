"""Others' software that a stack trusts: Python packages, Go modules, Debian packages, images."""
