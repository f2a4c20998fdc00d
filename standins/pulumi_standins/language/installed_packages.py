"""Lists an environment's packages as JSON; runs inside that environment, so the standard library only.

Each entry: name, version, required (whether another package needs it), and plugin, the contents of the
package's pulumi-plugin.json, where it has one.
"""

import importlib.metadata
import json
import re


def normal(name: str) -> str:
    """A package's name in the one spelling that the package index compares."""
    return re.sub(r"[-_.]+", "-", name).lower()


def plugin_of(distribution: importlib.metadata.Distribution) -> "object | None":
    """The contents of a distribution's pulumi-plugin.json, None where it has none."""
    for file in distribution.files or []:
        if file.name == "pulumi-plugin.json" and len(file.parts) == 2:
            plugin: object = json.loads(file.read_text())
            return plugin
    return None


def main() -> None:
    """Print the list."""
    found = {normal(d.metadata["Name"]): d for d in importlib.metadata.distributions() if d.metadata["Name"]}
    required = set()
    for distribution in found.values():
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement:
                required.add(normal(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]))
    entries = []
    for name, distribution in sorted(found.items()):
        plugin = plugin_of(distribution) if name.startswith("pulumi") else None
        entries.append(
            {
                "name": name,
                "version": distribution.version,
                "required": name in required,
                "plugin": plugin,
            }
        )
    print(json.dumps(entries))


if __name__ == "__main__":
    main()
