"""ResNet-50, trained for some steps by all ranks; how fast is written by the first."""
