"""Bisection: which release or commit brings a finding, and which one fixes it."""
