"""Programs that wait for each other or access the same memory: scheduling, vector clocks, race checks."""
