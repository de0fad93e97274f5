"""The search: draw cases, run campaigns of them, and shrink those that fail."""

USUAL_DEVICES = "h200,b200,rtx-pro-6000,a100"
"""The default of `--device`: one GPU for each set of hardware limits.  Importing it from here is cheap."""
USUAL_DEVICE = USUAL_DEVICES.partition(",")[0]
"""The default where one GPU is needed or suffices."""
