"""The code of the jobs that `bench resnet50` submits. Ranks execute modules of the package below, in a snapshot of this
directory. They use Python 3.8, the standard library and the user's framework; never worldsize."""
