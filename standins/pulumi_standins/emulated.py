"""The versions of Pulumi's own plugins that the stand-ins imitate."""

from __future__ import annotations

# `pulumi about` and `pulumi plugin ls` show this version; the tests run the CLI of this version.
LANGUAGE_HOST = "3.260.0"
# The plugin whose state, diffs and waits are reproduced; it belongs to the SDK of the same version.
KUBERNETES_PLUGIN = "4.30.0"
