# make-debian.sh DIR RELEASE: the root directory of a Debian release, with what the tests on a Slurm cluster need in it.
# Exit code 3: the last line says what this machine lacks for it.
set -eu
root=$1
release=$2
PATH=$PATH:/usr/sbin:/sbin
export DEBIAN_FRONTEND=noninteractive

. scripts/environments/bootstrap.sh
bootstrap Debian "$release" "$root" "${DEBIAN_KEYS:-/usr/share/keyrings/debian-archive-keyring.gpg}" debian-archive-keyring

echo '==> packages for the tests'
sh scripts/environments/enter-root.sh "$root" sh -c '
    set -eu
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ca-certificates git libnsl2 make openssh-client procps python3 python3-venv
    CI=1 WITHOUT_BROWSER=1 sh scripts/system-packages.sh
    apt-get clean
    rm -rf /var/lib/apt/lists/*
    slurmctld -V' || lack "the packages of Debian $release could not be installed"
