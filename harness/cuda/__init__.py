"""The real GPU, beside the virtual one."""
