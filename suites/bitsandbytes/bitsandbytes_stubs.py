"""What bitsandbytes' Triton backend needs from the rest of the package: the file that `stubs` of an op names."""

IMPORTED = ("bitsandbytes.backends.triton.ops",)
