# A rank: it writes lines until it is let go, and notes each, once it is written, where no fault reaches.
#   sh rank.sh DIRECTORY
# go, go-RUN: all end with 0; leave-RANK, fail-RANK: this one ends with 0, with 3; stubborn: TERM does not end it.
at=$1 rank=${RANK:-$SLURM_PROCID}
notes=$at/notes/$WORLDSIZE_RUN_ID.${SLURM_RESTART_COUNT:-0}.$rank.${WORKER:-0}

say() {
    printf '%s\n' "$1" || exit 1
    printf '%s\n' "$1" >>"$notes"
}

told=
answer() {   # between two lines, since a trap comes between a line and its note, too
    [ -z "$told" ] || { told=; say "rank $rank was told to end"; }
}

if [ -e "$at/stubborn" ]; then
    trap 'told=1' TERM
fi
if [ ! -e "$at/childless" ]; then
    setsid sleep 7654 &
    sleep 7654 &
fi
line=0
until [ -e "$at/go" ] || [ -e "$at/go-$WORLDSIZE_RUN_ID" ]; do
    line=$((line + 1))
    say "rank $rank${WORKER:+ worker $WORKER} line $line"
    [ ! -e "$at/leave-$rank" ] || exit 0
    [ ! -e "$at/fail-$rank" ] || exit 3
    sleep 0.05
    answer
done
answer
say "rank $rank${WORKER:+ worker $WORKER} ends"
