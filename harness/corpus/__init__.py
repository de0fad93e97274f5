"""The corpus: historical bugs that the ordinary search must find again, and not see in the releases that mend them."""
