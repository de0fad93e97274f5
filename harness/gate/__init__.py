"""The gate: what a change touches against its base, and which findings it brings."""
