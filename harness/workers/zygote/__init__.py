"""Fork servers: they load torch, Triton and a library once and fork workers in milliseconds."""
