"""The mixed load: 1,000 users, each with a page, a load and a save of a project in turn."""
