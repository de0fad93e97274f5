"""The corpus: historical bugs that the search must find again, and must not find in the releases that fix them."""
