from worldsize_conformance.several import *
