"""What the file tools stand on: bytes and text, opening without a gap, matching, diffs."""
