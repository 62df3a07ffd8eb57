# What some tests need beside Python packages: mpirun, a real Slurm (with its accounting), environment modules and a
# browser (not in a root directory: WITHOUT_BROWSER).
# Installs what is missing, as root with apt; else says loudly which tests will be skipped. Under CI that is an error.
set -eu
PATH=$PATH:/usr/sbin:/sbin
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
packages=
consequences=

# need COMMAND PACKAGE CONSEQUENCE: the command succeeds where the package is there; the consequence is that of its lack
need() {
    eval "$1" >/dev/null 2>&1 && return 0
    for package in $2; do
        case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
    done
    case $consequences in *"$3"*) ;; *) consequences="$consequences
!!      $3" ;; esac
}

slurm='ALL TESTS ON A REAL SLURM CLUSTER WILL BE SKIPPED'
compiled='THE TESTS THAT COMPILE SOMETHING WILL BE SKIPPED'
mpi='THE TESTS THAT COMPILE FOR MPI WILL BE SKIPPED'
modules='THE TESTS WITH MODULES WILL BE SKIPPED'
browser='THE TESTS IN A BROWSER WILL BE SKIPPED'
images='THE SLURM TUTORIAL IN ITS OWN SIZE WILL BE SKIPPED'
second='THE TESTS ON A SECOND RELEASE OF SLURM WILL BE SKIPPED'
need 'mpirun --version' openmpi-bin 'THE TESTS WITH THE SYSTEM MPIRUN WILL BE SKIPPED'
need 'echo "#include <stdio.h>
    int main(void) { return 0; }" | gcc -x c - -o /dev/null' 'gcc libc6-dev' "$compiled"
need 'echo "#include <mpi.h>
    int main(void) { return MPI_Finalize(); }" | mpicc -x c - -o /dev/null' libopenmpi-dev "$mpi"
need 'slurmctld -V && slurmd -V && command -v sbatch && command -v srun && command -v sacct' slurm-wlm "$slurm"
need 'ls /usr/lib/*/slurm*/auth_munge.so' slurm-wlm-basic-plugins "$slurm"
# The library that Slurm's plug-in for --mpi=pmix opens when a step starts.
need 'ls /usr/lib/*/slurm*/mpi_pmix.so && ls /usr/lib/*/pmix*/lib/libpmix.so' 'slurm-wlm-basic-plugins libpmix-dev' "$slurm"
need 'munged --version' munge "$slurm"
need 'ip -V' iproute2 "$slurm"
need 'unshare --version && nsenter --version' util-linux "$slurm"
need 'nft --version' nftables "$slurm"
need 'command -v slurmdbd' slurmdbd "$slurm"
need 'ls /usr/lib/*/slurm*/accounting_storage_mysql.so' slurm-wlm-mysql-plugin "$slurm"
need 'mariadbd --version && command -v mariadb-install-db' mariadb-server "$slurm"
need 'command -v debootstrap && ls /usr/share/keyrings/debian-archive-keyring.gpg' 'debootstrap debian-archive-keyring' "$second"
need 'ls /usr/share/modules/init/sh || ls /usr/share/lmod/lmod/init/sh' environment-modules "$modules"
shell=chromium-headless-shell
[ -n "${WITHOUT_BROWSER:-}" ] || need "command -v $shell || command -v google-chrome" "$shell" "$browser"
[ -n "${WITHOUT_BROWSER:-}" ] || need 'ls /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz' dataset-fashion-mnist "$images"
[ -n "$packages" ] || exit 0

go_without() {
    echo "!!  $1:$packages$consequences" >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

[ "$(id -u)" = 0 ] || go_without 'not installed (as root on Debian or Ubuntu: sh scripts/system-packages.sh)'
command -v apt-get >/dev/null 2>&1 || go_without 'not installed, and there is no apt-get'

echo "==> apt-get install$packages"
echo '    for the tests; once, up to 200 MB to download, one to three minutes. No service of them is started.'
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
apt-get update -qq || go_without 'could not be installed'
unknown=
case "$packages " in *" $shell "*)
    # Ubuntu has none.
    if ! apt-cache show "$shell" >/dev/null 2>&1; then
        unknown=" $shell"
        packages=$(echo "$packages " | sed "s/ $shell / /")
    fi
esac
# shellcheck disable=SC2086
[ -z "${packages# }" ] || apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $packages >/dev/null ||
    go_without 'could not be installed'
[ -n "$unknown" ] || exit 0
packages=$unknown consequences="
!!      $browser"
go_without 'unknown to apt (Google Chrome serves as well)'
