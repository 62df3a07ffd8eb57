"""Training of ResNet-50 for some steps by all ranks. The first rank writes the speed."""
