"""The oracles: one file for each promise that a correct kernel keeps."""
