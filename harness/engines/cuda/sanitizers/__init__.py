"""compute-sanitizer and Triton's own sanitizers on hardware GPUs."""
