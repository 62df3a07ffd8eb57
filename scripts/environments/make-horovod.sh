# make-horovod.sh DIR CACHE: Horovod with gloo for PyTorch and TensorFlow, compiled from the sources on the package index, in
# an environment of its own. Made by $PYTHON, which is 3.10 or 3.11: TensorFlow 2.14 wants at most 3.11, torch at least 3.10.
# The wheel is kept in CACHE/wheels. Exit code 3: the last line says what this machine lacks for it.
set -eu
venv=$1
cache=$2
version=0.28.1

# Before anything is downloaded for it.
ls "$cache/wheels/horovod-$version-"*/horovod-*.whl >/dev/null 2>&1 || sh scripts/environments/need-compiler.sh "$PYTHON" || exit 3
"$PYTHON" -m venv "$venv"
python=$venv/bin/python
PATH=$venv/bin:$PATH
pip() { "$python" -m pip "$@"; }
pip install --requirement requirements/torch.txt --requirement requirements/horovod.txt

tag=$("$python" -c 'import platform, sys; from importlib.metadata import version as of
print("py%d%d-%s-torch%s-tensorflow%s" % (*sys.version_info[:2], platform.machine(), of("torch"), of("tensorflow-cpu")))')
kept=$cache/wheels/horovod-$version-$tag

if ! ls "$kept"/horovod-*.whl >/dev/null 2>&1; then
    sh scripts/environments/need-compiler.sh "$python" || exit 3
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
        pip wheel --verbose --no-deps --no-build-isolation --wheel-dir "$work/wheel" .
    # A wheel is in the cache whole or not at all.
    for wheel in "$work"/wheel/horovod-*.whl; do
        cp "$wheel" "$kept/.new"
        mv "$kept/.new" "$kept/$(basename "$wheel")"
    done
fi
pip install --no-deps --force-reinstall "$kept"/horovod-*.whl
