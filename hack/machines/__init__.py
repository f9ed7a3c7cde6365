"""QEMU virtual machines with this machine's file system, or with only a few programs."""
