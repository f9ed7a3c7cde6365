"""Creates a release: its version, images, charts, SBOMs, signatures and provenance."""
