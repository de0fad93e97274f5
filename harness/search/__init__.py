"""The search: draw cases, run campaigns of them, and shrink those that fail."""

USUAL_DEVICES = "a100,h200,b200,rtx-pro-6000"
"""The default of `--device`: one GPU for each set of hardware limits.  Importing it from here is cheap."""
