"""What several rows of this dashboard use."""

AT = 'node=~"$node"'
