"""The report as one HTML page that works from disk: no script, no network, pictures inline."""
