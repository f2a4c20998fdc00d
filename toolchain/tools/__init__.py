"""The programs that the product stands on: found on the machine, or built from pinned Go modules into the cache."""
