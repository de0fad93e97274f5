"""What each TTIR operation computes, one file for each kind."""
