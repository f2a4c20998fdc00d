"""Kubernetes' scheduler-plugins: a second scheduler that starts all replicas of a job or none, and its controller."""
