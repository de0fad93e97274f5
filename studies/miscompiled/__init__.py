"""Miscompilations of released Tritons: which of them the PTX machine shows, with the release that is installed."""
