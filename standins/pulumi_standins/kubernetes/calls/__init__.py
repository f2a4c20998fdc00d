"""The calls of the service that concern single resources: check, diff, create, read, update, delete."""
