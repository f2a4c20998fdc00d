"""The versions of Pulumi's own plugins that the stand-ins behave like."""

from __future__ import annotations

# `pulumi about` and `pulumi plugin ls` show it; the CLI of this version is the one that the tests run.
LANGUAGE_HOST = "3.260.0"
# The plugin whose state, diffs and waits are reproduced; it goes with the SDK of the same version.
KUBERNETES_PLUGIN = "4.30.0"
