"""The policies as data with two readings: the review's own checks, and what an API server holds everybody to."""
