"""The nouns of the harness: frozen values, standard library only, imported by every other room."""
