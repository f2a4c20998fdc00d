"""The live view of `make up`: it reads events, and draws a few rows at the bottom of the terminal."""
