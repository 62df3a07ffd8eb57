"""The MLflow plug-in that makes MLflow in a rank store its runs in this run.

A rank loads it from the run's agent.pyz under the name `worldsize_mlflow` (inrank/sitecustomize.py), if the run's entry
points name it (service/submission/rank_packages.py). It uses the standard library, relative imports, and MLflow once
MLflow requests a store; Python 3.8 and later.
"""
