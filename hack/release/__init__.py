"""Creates a release: version, images, charts, SBOMs, signatures and provenance."""
