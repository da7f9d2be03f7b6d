"""Child processes, all of them bounded, ended with what they began, and heard to the end."""
