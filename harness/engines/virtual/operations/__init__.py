"""The TTIR operations that the machine executes, one file for each kind."""
