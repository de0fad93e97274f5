"""JAX on the virtual GPU: kernels of jax-triton run through XLA's FFI.  Loaded in child processes only."""
