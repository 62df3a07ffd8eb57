"""The figures of a training that ranks share: what a script computes of its batch for itself is the whole batch's.

A rank's tensors hold the samples of its slice. A torch function mode follows what becomes of them in the script's own
code: which dimension is the batch's, what was added up or averaged over it. Where the script makes a Python number, an
array or a text of such a tensor, the ranks put the whole batch's together; where that is not possible, a notice names
the line. Sizes are the whole batch's too, except where torch makes tensors with them.
"""
