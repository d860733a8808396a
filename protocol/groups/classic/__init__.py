"""Classic groups: members, generations and rebalances (JoinGroup, SyncGroup, LeaveGroup)."""
