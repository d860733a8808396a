"""What must hold in a simulation: of logs, states, answers, and what clients were told."""
