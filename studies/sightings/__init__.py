"""How soon a search first sees known bugs: seconds and cases from the start of the command."""
