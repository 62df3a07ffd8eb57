from worldsize_conformance.warnings import *
