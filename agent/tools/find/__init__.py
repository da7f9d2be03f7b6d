"""What searching and outlines stand on: walking a tree, globs, expressions, definitions."""
