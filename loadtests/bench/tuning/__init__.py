"""Ten thousand connections at once: the kernel's defaults beside the node tuner's profile."""
