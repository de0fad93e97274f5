"""The report as one HTML page that works from disk: no network, pictures inline, one small script of its own."""
