"""The catalogue of GPUs, and how a process wears one."""
