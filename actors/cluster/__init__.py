"""The base of a cluster: its data directories, ports, processes and Ray node."""
