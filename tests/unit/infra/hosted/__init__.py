"""What tests have Pulumi's host of dynamic providers run."""
