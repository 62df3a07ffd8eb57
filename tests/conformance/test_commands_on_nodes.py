from worldsize_conformance.commands_on_nodes import *
