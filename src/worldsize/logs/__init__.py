"""Readers of what the ranks of a run wrote: live, afterwards, and for the failure screen.

reader      RankLog: one rank's file, read as it grows
text        bytes of a rank → text that is safe to show
tail        the last lines of a file; the last lines of the other ranks
fold        LineFolder: lines that are equal on all ranks become one (pure, no clock)
align       the alignment below it
numbers     lines that differ only in numbers
selection   --rank, --node, --grep
merged_log  LogFollower: the merged log, as it is printed
times       LogTimes: the times at which a rank's lines were written
timed_log   TimedLogFollower: the log with the time of each line
"""
