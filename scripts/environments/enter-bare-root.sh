# enter-bare-root.sh DIR COMMAND …: run a command as root on a machine whose files are those in DIR alone, with a process
# table, /dev, /run and /dev/shm of its own. It shares this machine's network, /sys and host name. The folders that the variable
# SEEN names, separated by colons, are there too, at the same paths and read-only; files that it names are copied. The
# command's end is the end of all processes that it started, and no mount is left.
#
# The shell stays process 1, which waits for all that have lost their parent.
set -eu
PATH=$PATH:/usr/sbin:/sbin
if [ "${1:-}" != --entered ]; then
    exec unshare --mount --pid --fork --kill-child --propagation private sh "$0" --entered "$@"
fi
root=$2
shift 2

mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/lock
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    : > "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,mode=620,ptmxmode=666,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for name in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${name%:*}" "dev/${name#*:}"
done

for path in /etc/resolv.conf /etc/hosts; do
    # Not replaced where it is the same: another command may be running in DIR with something mounted there.
    if [ -e "$path" ] && ! cmp -s "$path" ".$path"; then
        rm -f ".$path"
        cp -L "$path" ".$path"
    fi
done
IFS=:
for path in ${SEEN:-}; do
    if [ -d "$path" ]; then
        mkdir -p ".$path"
        mount --bind "$path" ".$path"
        mount -o remount,ro,bind ".$path"
    elif [ -e "$path" ]; then
        mkdir -p "$(dirname ".$path")"
        cp -L "$path" ".$path"
    fi
done
unset IFS SEEN

pivot_root . .
umount -l .
cd /
code=0
"$@" || code=$?
exit $code
