"""The hardware GPUs of this machine: inventory, leases, health and quarantine."""
