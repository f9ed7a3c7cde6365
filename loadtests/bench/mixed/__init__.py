"""The mixed load: 1,000 users with pages and projects."""
