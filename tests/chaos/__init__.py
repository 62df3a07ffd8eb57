"""Faults made on purpose, at moments that are events: `python -m chaos --help`."""
