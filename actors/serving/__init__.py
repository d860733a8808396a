"""Client connections: accepted, limited, read, answered."""
