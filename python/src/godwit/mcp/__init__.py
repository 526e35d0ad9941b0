"""Owns the server by which programs that speak the Model Context Protocol use a node."""
