"""What skaffold.yaml runs: builds of images without Docker."""
