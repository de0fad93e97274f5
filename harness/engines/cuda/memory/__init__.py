"""Device memory of hardware GPUs, with redzones around tensors."""
