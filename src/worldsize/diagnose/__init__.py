"""Explanation of failed training runs: messages of frameworks, their causes, and what to do about them."""
