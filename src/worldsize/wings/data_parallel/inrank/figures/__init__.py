"""The figures of a data-parallel training. A figure that a script computes from its batch is that of the whole batch.

A rank's tensors hold the samples of its slice. A torch function mode follows them through the script's own code. It
records which dimension is that of the batch, and what was summed or averaged over it. If the script makes a Python
number, an array or a text from such a tensor, the ranks combine their values into that of the whole batch. If that is
not possible, a notice names the line. Sizes are those of the whole batch, too, except where torch creates tensors with
them.
"""
