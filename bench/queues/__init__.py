"""Queues at the same work on the same server, beside the server's own limit."""
