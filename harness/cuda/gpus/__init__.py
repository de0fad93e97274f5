"""The real GPUs of this machine: inventory, leases, health and quarantine."""
