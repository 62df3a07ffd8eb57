# make-deepspeed.sh DIR CACHE: DeepSpeed in an environment of its own, with its one part for CPUs compiled, which otherwise
# each user's first start would do. Made by $PYTHON. Exit code 3: the last line says what this machine lacks for it.
set -eu
venv=$1
python=${PYTHON:-python3}

sh scripts/environments/need-compiler.sh "$python" || exit 3
"$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip "$@"; }
pip install --requirement requirements/torch.txt 'setuptools<81' wheel ninja
export PATH="$venv/bin:$PATH" DS_ACCELERATOR=cpu DS_BUILD_OPS=0 DS_BUILD_SHM_COMM=1
pip install --no-cache-dir --no-build-isolation --constraint requirements/torch.txt --requirement requirements/deepspeed.txt
