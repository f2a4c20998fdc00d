"""All objects of a stack as text, and the rules that they have to keep."""
