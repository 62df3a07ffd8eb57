"""Samples, at growing intervals, what a node's ranks use."""
