"""TTIR as data: the parser, and analyses of the text."""
