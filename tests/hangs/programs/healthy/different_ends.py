"""Ranks without a call of several ranks end one after the other, and all of them well."""

import time

from pace import DURATION, until_over
from ranks import LAST, RANK, begin, say, words

begin()
share = DURATION * RANK / max(LAST, 1)
if words.phase == "sleeping":
    time.sleep(share)
else:
    for number in until_over(share):
        sum(range(number, number + 10_000))
say("rank %d has done its share" % RANK)
