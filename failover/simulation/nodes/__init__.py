"""Simulated nodes: processes, disks, clocks, network, assignor workers and the controller."""
