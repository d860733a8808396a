"""The deterministic simulator: a cluster, its network, clients and faults in virtual time.

``python -m failover.simulation --help`` says what it can be asked. Everything runs in one thread.
It drives the very ``Host``, ``Replica``, ``GroupShard``, ``Controller`` and client members that
ship. Everything that happens is drawn from one seed, so that a failure can be had again.
"""
