"""Ingress: HTTP and WebSocket in front of the graph."""
