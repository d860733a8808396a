"""The console: pages about groups and the cluster, served by a process of their own; `/metrics`."""
