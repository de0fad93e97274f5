"""A library whose host code picks configs from JSON files: one that is listed for the H200 loses a column."""
