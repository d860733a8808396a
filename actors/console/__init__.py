"""The controller's web page, and the metrics that Prometheus scrapes."""
