from worldsize_conformance.requeue import *
