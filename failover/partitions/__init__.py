"""One partition: its state machine, its replica, and the gate that holds replies till commit."""
