"""What people see of a coordinator: log lines, metrics and traces."""
