"""Everything that a stack applies as text, and the rules that it has to keep."""
