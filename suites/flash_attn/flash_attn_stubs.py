"""What the Triton kernels of flash-attn need from the rest of the package: the file that `stubs` of an op names."""

IMPORTED = ("flash_attn.layers.rotary", "flash_attn.utils.library", "flash_attn.utils.torch")
