"""What Kubernetes does with the pods of applications: starts, deploys, scaling and drains. Pure."""
