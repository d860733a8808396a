"""Many clients at once: crowds of members, offsets, hostile connections; also on Spark."""
