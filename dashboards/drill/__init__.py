"""Drills: each alert's condition is made to happen, and Alertmanager must hear of it and of its end."""
