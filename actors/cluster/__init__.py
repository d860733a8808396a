"""What a cluster stands on: its data directories, ports, processes and Ray node."""
