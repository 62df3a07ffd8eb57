"""The pictures of the documentation: terminals from real runs, a run's life, charts of measured figures."""
