"""compute-sanitizer and Triton's own sanitizers on real GPUs."""
