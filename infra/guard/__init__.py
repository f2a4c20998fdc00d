"""The policies as data, used twice: by the review's own checks, and by the API server for every user."""
