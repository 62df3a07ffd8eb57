# make-venv.sh DIR: a virtual environment made by $PYTHON, unless there is one.
set -eu
venv=$1

if "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    exit 0
fi
python=$(sh scripts/need-python.sh)
rm -rf "$venv"
"$python" -m venv "$venv"
