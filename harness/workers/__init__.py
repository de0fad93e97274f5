"""Child processes that run cases and may die doing it."""
