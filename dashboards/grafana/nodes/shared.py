"""What several rows of this dashboard use."""

AT = 'node=~"$node"'

APPLIED = f'on (node) corelane_node_tuner_info{{{AT}, mode="apply"}}'
"""To be joined with: in mode audit nobody prepares a node, so one that is not is no news."""
