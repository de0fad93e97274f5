"""The PTX machine: executes the PTX that Triton compiles, on the CPU, as a GPU's threads, warps and CTAs would."""
