"""A stand-in for pulumi-resource-kubernetes 4.30.0: same state, same diffs, same waits."""
