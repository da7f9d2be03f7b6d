"""The commands of `ts`: each is a function of what was typed, and returns the exit code."""
