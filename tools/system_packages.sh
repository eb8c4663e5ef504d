#!/bin/sh
# What the tests of films and of both pages need beside Python: a software OpenGL, a browser, and node. Installs it where
# that is possible (Debian or Ubuntu, as root); elsewhere, or offline, those tests say why they are skipped.
missing=""
ls /usr/lib/*/libOSMesa.so.* >/dev/null 2>&1 || missing="libosmesa6"
command -v chromium >/dev/null && command -v chromedriver >/dev/null || missing="$missing chromium chromium-driver"
command -v node >/dev/null && command -v npm >/dev/null || missing="$missing nodejs npm"
[ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0

quick="-qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20"
export DEBIAN_FRONTEND=noninteractive
apt-get update $quick >/dev/null 2>&1
for package in $missing; do
    apt-get install -y $quick --no-install-recommends "$package" >/dev/null 2>&1 ||
        echo "could not install $package: the tests that need it are skipped"
done
exit 0
