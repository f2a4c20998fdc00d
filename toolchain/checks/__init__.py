"""Test suites, review, drift, and changes of stack files."""
