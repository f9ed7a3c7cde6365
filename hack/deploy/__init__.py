"""Installs the platform on a cluster, with the images of this tree."""
