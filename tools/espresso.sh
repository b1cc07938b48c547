#!/bin/sh
# Builds build/espresso/espresso, a program of mimalloc-bench that Debian does not have: from the sources of
# Berkeley's espresso inside a Python package. One that is there already is kept.
set -eu

version=0.29.0
sum=efd4d3e548079ca059f44f9babb9bd67b332ec1762897324fcceb8da1d0f5fed

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/espresso
[ ! -x "$out/espresso" ] || exit 0
mkdir -p "$out"
cd "$out"
die() {
  echo "espresso: $* (see $out/log)" >&2
  exit 1
}
"$root/build/venv/bin/python" -m pip download --quiet --no-deps --no-binary pyeda "pyeda==$version" >log 2>&1 ||
  die "cannot download pyeda"
echo "$sum  pyeda-$version.tar.gz" | sha256sum --check --quiet >>log 2>&1 || die "pyeda is not what it was"
tar -xzf "pyeda-$version.tar.gz"
# It is from before prototypes.
gcc -O2 -std=gnu89 -w "pyeda-$version"/thirdparty/espresso/src/*.c -lm -o espresso.new >>log 2>&1 ||
  die "cannot compile it"
mv espresso.new espresso
