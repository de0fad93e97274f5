"""Device memory of real GPUs, with redzones around tensors."""
