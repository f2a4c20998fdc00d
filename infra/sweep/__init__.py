"""A search over options of the training: what it asks for, and its study."""
