from worldsize_conformance.umask import *
