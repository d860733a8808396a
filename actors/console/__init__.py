"""The console: what a browser sees of the cluster."""
