"""A search over options of the training (`make sweep`): its section of the stack file, and its study in Optuna."""
