"""The code of the jobs that `bench resnet50` submits: ranks execute modules of the package below, in a snapshot of this
directory. Python 3.8, the standard library and the user's framework; never worldsize."""
