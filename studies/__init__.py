"""Studies of the harness itself: planted mistakes, and bugs of past releases.  They are no part of the package."""
