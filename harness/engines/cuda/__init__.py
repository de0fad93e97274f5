"""Hardware GPUs: the engines that run, compile and compare cases there, and what they need."""
