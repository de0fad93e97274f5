"""Nights: searches that continue each other, and what is known of their findings in the morning."""
