"""The application: binds the four deployments together."""
