# make-deepspeed.sh VENV: DeepSpeed in an environment of its own, with its one part for CPUs compiled, which otherwise each
# user's first start would do. Where nothing can compile it, it says which tests will be skipped; under CI that is an error.
set -eu
venv=$1
python=${PYTHON:-python3}

if ! sh scripts/need-compiler.sh "$python"; then
    echo "!!  no $venv: THE TESTS OF DEEPSPEED WILL BE SKIPPED" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi

echo "==> DeepSpeed into $venv/: 1.2 GB on disk with torch; one to two minutes to compile"
PYTHON=$python sh scripts/make-venv.sh "$venv"
python=$(pwd)/$venv/bin/python
pip() { "$python" -m pip "$@" --quiet --disable-pip-version-check; }
pip install --requirement requirements/torch.txt 'setuptools<81' wheel ninja
export PATH="$(pwd)/$venv/bin:$PATH" DS_ACCELERATOR=cpu DS_BUILD_OPS=0 DS_BUILD_SHM_COMM=1
pip install --no-cache-dir --no-build-isolation --constraint requirements/torch.txt --requirement requirements/deepspeed.txt
touch "$venv/.stamp"
