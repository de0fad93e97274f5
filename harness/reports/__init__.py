"""Output for people and CI systems: terminal text, progress, tables, HTML, Markdown and JUnit XML."""
