"""The rendering of a stack as text, its check against rules and schemas, and the page for a pull request."""
