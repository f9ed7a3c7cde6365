"""Corelane's dashboards as code: `make dashboards` writes them into dashboards/json."""
