"""Forwards to infra/clusters/kind: states of release 0.1 hold these import names. Goes with release 0.3."""
