"""The faults of a simulation, when and how often: chosen by the seed."""
