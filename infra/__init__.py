"""The Pulumi program: cluster, training-operator, storage, image, job and run, one component each."""
