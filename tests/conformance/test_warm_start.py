from worldsize_conformance.warm_start import *
