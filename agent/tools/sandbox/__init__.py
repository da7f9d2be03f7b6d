"""Commands kept from what is none of their business: files, the network, keys, other processes."""
