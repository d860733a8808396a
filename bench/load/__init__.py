"""Many clients at once: crowds of members, offsets, hostile connections; also over Spark."""
