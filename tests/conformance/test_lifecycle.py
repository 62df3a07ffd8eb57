from worldsize_conformance.lifecycle import *
