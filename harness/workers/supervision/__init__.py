"""What the parent sees of a child and how it limits it: channel, time and memory limits, evidence of hangs."""
