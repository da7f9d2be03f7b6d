"""What the web tools stand on: which addresses are public, fetching, reading pages, services."""
