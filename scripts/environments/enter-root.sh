# enter-root.sh DIR COMMAND …: run a command as root where DIR is the root directory, in a mount namespace of its own, from
# the present folder. The command sees the distribution in DIR (/usr, /etc, /var, …), and this machine's files everywhere
# else, all at the same paths: also those that the variable SEEN names, separated by colons. No mount is left.
#
# DIR becomes the root by pivot_root, since in a chroot no further mount namespace can be made private (its / is no mount
# point), and `nsenter --mount` leaves it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
if [ "${ENTERED_FROM:-}" != "$$" ]; then
    ENTERED_FROM=$$ exec unshare --mount --propagation private sh "$0" "$@"
fi
unset ENTERED_FROM
root=$1
shift

# see PATH: the machine's file or folder is in DIR too
see() {
    if [ -d "$1" ]; then
        mkdir -p "$root$1"
        mount --rbind "$1" "$root$1"
    elif [ -e "$1" ]; then
        mkdir -p "$(dirname "$root$1")"
        [ -e "$root$1" ] || : > "$root$1"
        mount --bind "$1" "$root$1"
    fi
}

here=$PWD
mount --bind "$root" "$root"
for path in /*; do
    case $path in
    /bin | /sbin | /lib | /lib32 | /lib64 | /libx32 | /usr | /etc | /var | /run | /boot | /lost+found) ;;
    *) [ -L "$path" ] || see "$path" ;;
    esac
done
# Clusters of the tests know of each other by these.
mkdir -p /run/worldsize-slurm /var/lib/worldsize-slurm
for path in /run/worldsize-slurm /var/lib/worldsize-slurm /etc/resolv.conf /etc/hosts /etc/hostname /etc/apt/apt.conf.d \
    /etc/apt/auth.conf.d /etc/pip.conf; do
    see "$path"
done
IFS=:
for path in ${SEEN:-}; do
    see "$path"
done
unset IFS
# Not once more where DIR itself is.
umount -l "$root$root" 2>/dev/null || :
cd "$root"
pivot_root . .
umount -l .
cd "$here"
exec "$@"
