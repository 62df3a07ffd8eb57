# make-debian.sh DIR RELEASE: the root directory of a Debian release, with what the tests on a Slurm cluster need in it.
# All packages come from the Debian archive that this machine's apt uses (else from debootstrap's own), and are checked
# against Debian's keys.
# Exit code 3: the last line says what this machine lacks for it.
set -eu
root=$1
release=$2
keys=${DEBIAN_KEYS:-/usr/share/keyrings/debian-archive-keyring.gpg}
PATH=$PATH:/usr/sbin:/sbin
export DEBIAN_FRONTEND=noninteractive

lack() {
    echo "$1"
    exit 3
}

# The addresses of the archives of Debian that apt uses, without those of security updates.
archives() {
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian \([a-z]*:.*\)/\1/p'
}

[ "$(id -u)" = 0 ] || lack 'needs root'
command -v debootstrap >/dev/null 2>&1 || lack 'debootstrap is not installed (sh scripts/system-packages.sh)'
command -v apt-get >/dev/null 2>&1 || lack 'there is no apt-get'
[ -e "$keys" ] || lack "the keys of Debian are not installed (debian-archive-keyring: $keys)"
unshare --mount true 2>/dev/null || lack 'this machine does not let root make mount namespaces'
[ -n "$(archives)" ] || apt-get update -qq
archive=$(archives | head -n 1)

echo "==> debootstrap $release"
# shellcheck disable=SC2086
debootstrap --variant=minbase --force-check-gpg --keyring="$keys" "$release" "$root" $archive ||
    lack "debootstrap could not make Debian $release"

echo '==> packages for the tests'
sh scripts/environments/enter-root.sh "$root" sh -c '
    set -eu
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ca-certificates git libnsl2 make openssh-client procps python3 python3-venv
    CI=1 WITHOUT_BROWSER=1 sh scripts/system-packages.sh
    apt-get clean
    rm -rf /var/lib/apt/lists/*
    slurmctld -V' || lack "the packages of Debian $release could not be installed"
