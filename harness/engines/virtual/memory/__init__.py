"""The memory of the virtual GPU: arguments, pointers with provenance, shadow memory, events."""
