"""What runs inside fork servers and the children that they fork: loading, the fork loop, the worker's main function."""
