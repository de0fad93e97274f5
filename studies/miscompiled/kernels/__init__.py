"""The kernels, a file each."""
