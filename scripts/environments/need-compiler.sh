# need-compiler.sh PYTHON: what compiles an extension of that Python is here: g++, make, its headers. Installs them by
# itself as root on a machine with apt-get; else says what is missing, and fails.
set -eu
python=$1
. scripts/install-hint.sh

has_headers() {
    "$python" -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))'
}

packages=
command -v g++ >/dev/null 2>&1 || packages="$packages g++"
command -v make >/dev/null 2>&1 || packages="$packages make"
has_headers || packages="$packages $("$python" -c 'import sys; print("python%d.%d-dev" % sys.version_info[:2])')"
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "==> apt-get install$packages"
    # shellcheck disable=SC2086
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq \
        --no-install-recommends $packages >/dev/null && has_headers; then
        exit 0
    fi
fi
# shellcheck disable=SC2086
hint=$(install_hint $packages)
echo "missing, to compile for $python:$packages${hint:+ (for example: $hint)}" >&2
exit 1
