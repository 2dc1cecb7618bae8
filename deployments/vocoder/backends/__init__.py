"""Runtimes of the generator behind one interface."""
