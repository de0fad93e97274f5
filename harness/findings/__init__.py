"""Findings after the search: the store, replays, known issues, and reproducers."""
