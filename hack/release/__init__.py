"""What a release is made of: its version, images, charts, SBOMs, signatures and provenance."""
