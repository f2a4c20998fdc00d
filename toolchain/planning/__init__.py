"""`make plan`: what more replicas of a job would bring, from a model of its compute and of its exchange."""
