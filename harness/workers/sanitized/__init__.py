"""Workers under compute-sanitizer."""
