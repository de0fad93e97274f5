"""Programs that wait for each other or meet in memory: scheduling, clocks, race checks."""
