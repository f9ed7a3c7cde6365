"""Load tests of the platform: k6 scenarios and their runner; `bench` compares and measures."""
