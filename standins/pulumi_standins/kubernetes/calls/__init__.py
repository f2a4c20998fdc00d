"""The service's calls about single resources: check, diff, create, read, update, delete."""
