"""Where cases run: engines, and the seams into Triton, torch, Inductor and JAX on which they stand."""
