"""Region mapping: for which sizes, SM counts and configs a finding shows, and the rule behind it."""
