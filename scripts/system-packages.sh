# What some tests need beside Python packages. Installs it as root; else says loudly which tests will be skipped.
set -eu
command -v mpirun >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo '==> apt-get install openmpi-bin (the tests against mpirun need it)'
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends openmpi-bin >/dev/null
else
    echo '!!  mpirun is not installed: THE TESTS THAT COMPARE WITH IT WILL BE SKIPPED (sudo apt-get install openmpi-bin)' >&2
fi
