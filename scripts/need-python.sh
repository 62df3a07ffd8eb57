# need-python.sh: prints a Python that can make virtual environments: $PYTHON if that is one. Says what to install where Python or
# its venv module is missing; installs that by itself where it runs as root on a machine with apt-get.
set -eu
python=${PYTHON:-python3}
. scripts/install-hint.sh

try_apt() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "==> apt-get install $*" >&2
        if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >&2; then
            return 0
        fi
    fi
    hint=$(install_hint "$@")
    echo "make: $missing. Install it first${hint:+, for example: $hint}" >&2
    exit 2
}

if ! "$python" -c '' 2>/dev/null; then
    missing="no Python found (tried python3.14 … python3.10 and $python)"
    try_apt python3 python3-venv
    python=python3
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "make: $python is $("$python" -V 2>&1), worldsize needs Python 3.10 or newer: make PYTHON=/path/to/python3.11 …" >&2
    exit 2
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$python has no venv module"
    # That of the distribution's own Python belongs to python3-venv, which may be of another version than this one.
    try_apt "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
fi
echo "$python"
