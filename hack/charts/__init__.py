"""Writes and compares what is generated from the charts: schemas, READMEs, golden renders."""
