"""Working with a stack: up, down, its state and what a killed run left of it."""
