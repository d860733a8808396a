"""Expected instances, spare members and kept assignments of a group: KIP-345's future works."""
