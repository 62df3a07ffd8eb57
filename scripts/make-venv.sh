# make-venv.sh DIR: a virtual environment made by $PYTHON. Says what to install where Python or its venv module is missing;
# installs that by itself where it runs as root on a machine with apt-get.
set -eu
venv=$1
python=${PYTHON:-python3}

if "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    exit 0
fi

try_apt() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "==> apt-get install $*"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
    else
        echo "make: $missing. Install it first, for example: sudo apt-get install $*" >&2
        exit 2
    fi
}

if ! "$python" -c '' 2>/dev/null; then
    missing="no Python found (tried python3.13 … python3.10 and $python)"
    try_apt python3 python3-venv
    python=python3
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "make: $python is $("$python" -V 2>&1), worldsize needs Python 3.10 or newer: make PYTHON=/path/to/python3.11 …" >&2
    exit 2
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$python has no venv module"
    try_apt python3-venv
fi
rm -rf "$venv"
"$python" -m venv "$venv"
