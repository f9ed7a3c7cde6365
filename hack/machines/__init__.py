"""Machines of QEMU with the file system of this one, or with a few programs alone."""
