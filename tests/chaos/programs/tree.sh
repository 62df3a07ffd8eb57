# A rank that starts workers in sessions of their own, as launchers do, and ends with the first that fails.
WORKER=1 setsid sh rank.sh "$1" &
first=$!
WORKER=2 setsid sh rank.sh "$1" &
second=$!
if [ -e "$1/stubborn" ]; then
    trap 'kill -TERM $first $second' TERM
fi
for worker in $first $second; do
    wait "$worker"
    code=$?
    while kill -0 "$worker" 2>/dev/null; do
        wait "$worker"
        code=$?
    done
    [ "$code" = 0 ] || exit "$code"
done
