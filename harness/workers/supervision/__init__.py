"""Limits on workers, and evidence from workers that hang or die."""
