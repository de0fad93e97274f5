"""The catalogue of GPUs, and the emulation of one by torch in a process."""
