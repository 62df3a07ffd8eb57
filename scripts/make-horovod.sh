# make-horovod.sh VENV: Horovod with gloo for PyTorch and TensorFlow, compiled from the sources on the package index, in an
# environment of its own. The wheel is kept in build/horovod/. Where no Python of this machine will do, it says which tests
# will be skipped; under CI that is an error.
set -eu
venv=$1
version=0.28.1
root=$(pwd)

go_without() {
    echo "!!  no $venv: $1" >&2
    echo '!!      THE TESTS OF HOROVOD WILL BE SKIPPED' >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

# TensorFlow 2.14 wants at most Python 3.11, and torch at least 3.10.
fitting() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' >/dev/null 2>&1
}

chosen=
for candidate in "${PYTHON:-python3}" python3.11 python3.10 "$HOME"/.pyenv/versions/3.11.*/bin/python \
    "$HOME"/.pyenv/versions/3.10.*/bin/python; do
    if fitting "$candidate"; then
        chosen=$candidate
        break
    fi
done
[ -n "$chosen" ] || go_without 'TensorFlow 2.14, which it is built against, needs Python 3.10 or 3.11 with its venv module'

ls build/horovod/py*/horovod-*.whl >/dev/null 2>&1 || sh scripts/need-compiler.sh "$chosen" ||
    go_without 'nothing to compile Horovod with'

echo "==> TensorFlow and torch for Horovod into $venv/: about 480 MB to download and 2.4 GB on disk"
PYTHON=$chosen sh scripts/make-venv.sh "$venv"
python=$root/$venv/bin/python
PATH=$root/$venv/bin:$PATH
pip() { "$python" -m pip "$@" --quiet --disable-pip-version-check; }
pip install --requirement requirements/torch.txt --requirement requirements/horovod.txt

tag=$("$python" -c 'import sys; from importlib.metadata import version
print("py%d%d-torch%s-tensorflow%s" % (*sys.version_info[:2], version("torch"), version("tensorflow-cpu")))')
kept=$root/build/horovod/$tag

# progress LOG PID: every 20 seconds how far it is, as CMake says.
progress() {
    while sleep 20 && kill -0 "$2" 2>/dev/null; do
        percent=$(grep -o '^ *\[ *[0-9]*%\]' "$1" | tail -n 1 | tr -d ' []')
        [ -z "$percent" ] || echo "    $percent compiled"
    done
}

if ! ls "$kept"/horovod-*.whl >/dev/null 2>&1; then
    sh scripts/need-compiler.sh "$python"
    echo "==> compiling Horovod $version with gloo, without MPI: five to ten minutes of two cores, once ($tag)"
    mkdir -p "$kept"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 pip download --no-deps --no-binary :all: --no-build-isolation \
        --dest "$work" "horovod==$version"
    tar xf "$work/horovod-$version.tar.gz" -C "$work"
    cd "$work/horovod-$version"
    # torch wants C++ 17; without debug symbols it is done sooner.
    sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' CMakeLists.txt horovod/torch/CMakeLists.txt \
        horovod/tensorflow/CMakeLists.txt
    sed -i "s/'RelWithDebInfo'/'Release'/" setup.py
    HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_TENSORFLOW=1 \
        "$python" -m pip wheel --verbose --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$work/wheel" . \
        >"$kept/build.log" 2>&1 &
    build=$!
    progress "$kept/build.log" "$build" &
    if ! wait "$build"; then
        tail -n 60 "$kept/build.log" >&2
        echo "!!  Horovod could not be compiled: all of it is in $kept/build.log" >&2
        exit 1
    fi
    cd "$root"
    mv "$work"/wheel/horovod-*.whl "$kept/"
fi
pip install --no-deps --force-reinstall "$kept"/horovod-*.whl
touch "$venv/.stamp"
