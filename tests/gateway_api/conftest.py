"""The gateway chart in mode gatewayAPI, translated by the real Envoy Gateway and served by the real Envoy."""
