"""What goes wrong in a simulation, when and how often: drawn from the seed."""
