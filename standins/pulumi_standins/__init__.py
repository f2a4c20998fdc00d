"""Stand-ins for Pulumi's own plugins, put on PATH only where those cannot be had."""
