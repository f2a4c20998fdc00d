"""The run of a job: waits for its end, shows its progress, reads its metrics, and writes its record."""
