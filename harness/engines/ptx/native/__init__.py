"""Native code of the PTX machine: straight instructions as LLVM IR, one warp at a time."""
