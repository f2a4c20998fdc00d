"""A search over options of the training: what it asks for, its study, and Katib's Experiment of it."""
