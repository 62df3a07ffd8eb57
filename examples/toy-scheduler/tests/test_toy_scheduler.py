from worldsize_conformance.suite import *  # noqa: F403
