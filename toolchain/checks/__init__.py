"""The test suites and the review."""
