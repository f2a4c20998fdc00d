"""Kubeflow Trainer v2: upstream's controllers of TrainJobs and JobSets, patched, and the wait for their webhooks."""
