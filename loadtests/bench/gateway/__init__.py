"""`gateway`: what a request costs in the gateway, beside other configurations and other proxies."""
