"""The virtual GPU: a Triton driver whose machine code is TTIR, executed on the CPU over shadow memory."""
