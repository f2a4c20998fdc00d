"""The trainer image: its inputs' hash, its build, and the registries it goes to."""
