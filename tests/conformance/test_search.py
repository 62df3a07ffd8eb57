from worldsize_conformance.search import *
