"""What the Triton kernels of mamba-ssm need from the rest of the package: the file that `stubs` of an op names."""

IMPORTED = ("mamba_ssm.utils.determinism", "mamba_ssm.utils.torch")
