"""The plug-in by which MLflow in a rank keeps its runs in this run.

A rank loads it from the run's agent.pyz under the name `worldsize_mlflow` (inrank/sitecustomize.py), where the run's
entry points name it (service/submission/rank_packages.py). Standard library, relative imports, and MLflow once it asks
for a store; Python 3.8 and later.
"""
