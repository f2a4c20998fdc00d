"""Stand-ins for Pulumi's own plugins, put on PATH only if those cannot be downloaded."""
