# install-hint.sh is read by scripts that name a package that is missing.

# install_hint PACKAGE …: the command that installs on this distribution what these packages of Debian are for: python3,
# python3-venv, pythonX.Y-venv, pythonX.Y-dev, g++, make. Nothing where no known program installs packages here.
install_hint() {
    for tool in apt-get dnf zypper pacman apk ''; do
        [ -z "$tool" ] || ! command -v "$tool" >/dev/null 2>&1 || break
    done
    words=
    for package in "$@"; do
        case $tool:$package in
        # Elsewhere the venv module is a part of Python.
        dnf:python3-venv | apk:python3-venv) package=python3 ;;
        dnf:python3.*-venv) package=${package%-venv} ;;
        dnf:python3.*-dev) package=${package}el ;;
        apk:python3.*-venv) package=python3 ;;
        apk:python3.*-dev) package=python3-dev ;;
        pacman:python3*) package=python ;;
        zypper:python3 | zypper:python3-venv) package=python311 ;;
        zypper:python3.*-venv) package=python3${package#python3.} package=${package%-venv} ;;
        zypper:python3.*-dev) package=python3${package#python3.} package=${package}el ;;
        dnf:g++ | zypper:g++) package=gcc-c++ ;;
        pacman:g++) package=gcc ;;
        esac
        case " $words " in *" $package "*) ;; *) words="$words $package" ;; esac
    done
    case $tool in
    '') ;;
    pacman) echo "sudo pacman -S$words" ;;
    apk) echo "sudo apk add$words" ;;
    *) echo "sudo $tool install$words" ;;
    esac
}
