# make-horovod-nccl.sh DIR CACHE: Horovod with NCCL, as worldsize builds it from examples/environments/horovod-nccl.yml, without
# a GPU. DIR is an environment with what worldsize needs for that; DIR/horovod is the one that was built. Made by $PYTHON.
# Exit code 3: the last line says what this machine lacks for it.
set -eu
venv=$1

sh scripts/environments/need-compiler.sh "$PYTHON" || exit 3
if ! mpicc --version >/dev/null 2>&1 || ! mpirun --version >/dev/null 2>&1; then
    echo "!!  missing, to compile Horovod: mpicc and mpirun (for example: sudo apt-get install libopenmpi-dev openmpi-bin)" >&2
    exit 3
fi

"$PYTHON" -m venv "$venv"
"$venv/bin/python" -m pip install "$PWD[env]"

# Its Python is the one of this environment. Downloads are not kept, except in a cache of uv's that UV_CACHE_DIR names.
own=$venv/uv
export PATH="$venv/bin:$PATH" WORLDSIZE_HOME="$venv/worldsize" UV_CACHE_DIR="${UV_CACHE_DIR:-$own}"
# nproc counts OMP_NUM_THREADS; and the flags of the make that started this are not for Horovod's.
MAKEFLAGS=-j$(env -u OMP_NUM_THREADS nproc)
export MAKEFLAGS
unset MAKELEVEL MFLAGS
prefix=$("$venv/bin/python" -m worldsize env build examples/environments/horovod-nccl.yml)
rm -rf "$own" "$WORLDSIZE_HOME/cache"
ln -sfn "$prefix" "$venv/horovod"
