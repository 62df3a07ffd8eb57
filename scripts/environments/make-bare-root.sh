# make-bare-root.sh DIR DISTRIBUTION RELEASE USER: the root directory of a machine that nobody has set up: a minimal Debian or
# Ubuntu with make, Python with its venv module, git, and one ordinary user.
# Exit code 3: the last line says what this machine lacks for it.
set -eu
root=$1
distribution=$2
release=$3
user=$4
PATH=$PATH:/usr/sbin:/sbin
export DEBIAN_FRONTEND=noninteractive

. scripts/environments/bootstrap.sh
case $distribution in
Ubuntu)
    keys=${UBUNTU_KEYS:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
    bootstrap Ubuntu "$release" "$root" "$keys" "ubuntu-keyring, or in UBUNTU_KEYS" --components=main,universe
    ;;
*)
    keys=${DEBIAN_KEYS:-/usr/share/keyrings/debian-archive-keyring.gpg}
    bootstrap Debian "$release" "$root" "$keys" debian-archive-keyring
    ;;
esac

# How this machine's apt reaches its archives: proxies and the like.
apt-config dump Acquire | grep -E '^Acquire::(http|https|Check-)' > "$root/etc/apt/apt.conf.d/00machine" || :
[ ! -d /etc/apt/auth.conf.d ] || cp -a /etc/apt/auth.conf.d/. "$root/etc/apt/auth.conf.d/"

echo '==> make, Python, git'
sh scripts/environments/enter-bare-root.sh "$root" sh -c "
    set -eu
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ca-certificates git make python3 python3-venv
    apt-get clean
    rm -rf /var/lib/apt/lists/*
    useradd --create-home --shell /bin/bash '$user'" || lack "the packages of $distribution $release could not be installed"
