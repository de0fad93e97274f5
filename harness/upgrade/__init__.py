"""Two releases of Triton compared: kernels compiled and cases run with both."""
