# bootstrap.sh is read by the scripts beside it that make a root directory with debootstrap. All packages come from the archive
# that this machine's apt uses for that distribution (else from debootstrap's own), and are checked against its keys.

lack() {
    echo "$1"
    exit 3
}

# archives DISTRIBUTION: the addresses that apt uses for Debian or Ubuntu, without Debian's for security updates.
archives() {
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$1 \([a-z]*:.*\)/\1/p"
}

# bootstrap DISTRIBUTION RELEASE DIR KEYS PACKAGE [OPTION …]: a minimal root directory of that release in DIR. KEYS is the file
# with the keys of its archive, which PACKAGE installs. On failure the last line says what this machine lacks, and the exit
# code is 3.
bootstrap() {
    distribution=$1 release=$2 root=$3 keys=$4 package=$5
    shift 5
    [ "$(id -u)" = 0 ] || lack 'needs root'
    command -v debootstrap >/dev/null 2>&1 || lack 'debootstrap is not installed (sh scripts/system-packages.sh)'
    command -v apt-get >/dev/null 2>&1 || lack 'there is no apt-get'
    [ -e "$keys" ] || lack "the keys of $distribution are not installed ($package: $keys)"
    unshare --mount true 2>/dev/null || lack 'this machine does not let root make mount namespaces'
    [ -n "$(archives "$distribution")" ] || apt-get update -qq
    archive=$(archives "$distribution" | head -n 1)
    script=
    if [ ! -e "${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts/$release" ]; then
        # Newer than this debootstrap; all releases of a distribution are made in the same way.
        case $distribution in
        Debian) script=sid archive=${archive:-http://deb.debian.org/debian} ;;
        Ubuntu) script=gutsy archive=${archive:-http://archive.ubuntu.com/ubuntu} ;;
        esac
    fi
    echo "==> debootstrap $release"
    # shellcheck disable=SC2086
    debootstrap --variant=minbase --force-check-gpg --keyring="$keys" "$@" "$release" "$root" $archive \
        ${script:+"${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts/$script"} ||
        lack "debootstrap could not make $distribution $release"
}
