"""`gateway`: the cost of a request in the gateway, compared with other configurations and proxies."""
