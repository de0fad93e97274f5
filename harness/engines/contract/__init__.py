"""The contract that every engine keeps, for tests of engines inside and outside the harness."""
