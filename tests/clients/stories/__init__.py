"""What rollcall explain says of real clients."""
