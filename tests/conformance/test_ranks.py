from worldsize_conformance.ranks import *
