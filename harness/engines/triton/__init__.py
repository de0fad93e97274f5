"""The Triton driver of the virtual GPU, and the compiler pipeline behind it."""
