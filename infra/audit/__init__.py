"""What a stack trusts of others: Python packages, Go modules, Debian packages, images."""
