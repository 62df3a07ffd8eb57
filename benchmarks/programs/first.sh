# A rank: says its first line, and when that was. bash first.sh NOTES
echo "here"
echo "rank $EPOCHREALTIME" >"$1"
