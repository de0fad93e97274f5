"""The matrix: every kernel of the ops, with every autotune config, compiled for every GPU."""
