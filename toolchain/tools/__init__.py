"""The programs that the product needs: found on the machine, or built from pinned Go modules into the cache."""
