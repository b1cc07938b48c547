#!/bin/bash
# Builds the allocators that loft is measured against and leaves build/peers/NAME.so for each,
# ready for LD_PRELOAD, with their versions in build/peers/versions.json.
#
#   mimalloc2 jemalloc tcmalloc tbbmalloc   Debian's own packages, unpacked, not installed
#   snmalloc mimalloc3                      compiled from the sources inside their Rust crates,
#                                           with the flags of their own release builds
#   prototype                               only if LOFT_PROTOTYPE names its source
#
# Needs Debian 12 and, for tools that are missing, root. A peer that is there already is kept;
# remove build/peers to start over.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=${LOFT_PEERS_DIR:-$root/build/peers}
work=$out/work
log=$work/log

# Pinned, so that a result can be reproduced: the newest of each when this was written.
snmalloc_crate=snmalloc-sys
snmalloc_version=0.7.6
mimalloc_crate=libmimalloc-sys
mimalloc_version=0.1.49

say() { printf 'peers: %s\n' "$*"; }
die() {
  printf 'peers: %s (see %s)\n' "$*" "$log" >&2
  exit 1
}
quietly() { "$@" >>"$log" 2>&1; }

updated=
update_lists() {
  [ -n "$updated" ] || quietly apt-get update || die "apt-get update failed"
  updated=yes
}

# install PACKAGE...: the first of them that apt knows.
install() {
  local package
  update_lists
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      DEBIAN_FRONTEND=noninteractive quietly apt-get install -y --no-install-recommends "$package" ||
        die "cannot install $package"
      return
    fi
  done
  die "apt knows no package $1"
}

# need COMMAND PACKAGE: installs PACKAGE if COMMAND is missing.
need() { command -v "$1" >/dev/null || install "$2"; }

# A peer counts only if it really replaces the C and the C++ entry points and a C++ program
# lives under it.
check() {
  local name=$1 library=$out/$1.so symbol
  nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' >"$work/symbols"
  for symbol in malloc free calloc realloc posix_memalign _Znwm _ZdlPv; do
    # The prototype leaves the operators to libstdc++, which calls its malloc.
    if [ "$name" = prototype ] && [ "${symbol#_Z}" != "$symbol" ]; then continue; fi
    grep -qx "$symbol" "$work/symbols" || die "$name does not define $symbol"
  done
  if [ ! -x "$work/try" ]; then
    cat >"$work/try.cc" <<'END'
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
int main() {
  std::vector<std::string*> strings;
  std::thread([&] { for (int i = 0; i < 20000; i++) strings.push_back(new std::string(i % 300, 'x')); }).join();
  for (auto* s : strings) delete s;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&malloc), &info) == 0) return 1;
  std::puts(info.dli_fname);
}
END
    quietly g++ -O1 -fno-builtin "$work/try.cc" -o "$work/try" -pthread || die "cannot build the trial program"
  fi
  [ "$(LD_PRELOAD=$library "$work/try" 2>>"$log")" = "$library" ] || die "a C++ program does not run under $name"
}

# from_debian NAME PACKAGE LIBRARY: unpacks PACKAGE and takes LIBRARY out of it.
from_debian() {
  local name=$1 package=$2 library=$3 found
  if [ ! -e "$out/$name.so" ]; then
    update_lists
    mkdir -p "$work/$package"
    (cd "$work/$package" && rm -f ./*.deb && quietly apt-get -o APT::Sandbox::User=root download "$package") ||
      die "cannot download $package"
    quietly dpkg-deb -x "$work/$package"/*.deb "$work/$package/files" || die "cannot unpack $package"
    found=$(find "$work/$package/files" -name "$library" | head -n 1)
    [ -n "$found" ] || die "$package has no $library"
    if [ "$name" = tbbmalloc ]; then
      # The proxy replaces malloc and needs the allocator proper, looked for beside it.
      need patchelf patchelf
      cp -L "${found/_proxy/}" "$out/libtbbmalloc.so.2"
      cp -L "$found" "$work/proxy.so"
      quietly patchelf --set-rpath "\$ORIGIN" "$work/proxy.so" || die "cannot set the path of $library"
      mv "$work/proxy.so" "$out/$name.so"
    else
      cp -L "$found" "$work/$name.so"
      mv "$work/$name.so" "$out/$name.so"
    fi
    dpkg-deb -f "$work/$package"/*.deb Version >"$work/$name.version"
  fi
  check "$name"
  say "$name: Debian's $package $(cat "$work/$name.version")"
}

# The crates' sources, by way of a throwaway project that depends on them.
fetch_crates() {
  [ -d "$work/crates/vendor/$snmalloc_crate" ] && [ -d "$work/crates/vendor/$mimalloc_crate" ] && return
  # Before 1.70, which is what Debian 12's plain cargo is, cargo wants a copy of the whole index
  # first. Debian's newer one, which replaces it, is called cargo-web.
  local minor
  minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p' || true)
  if [ "${minor:-0}" -lt 70 ]; then install cargo-web cargo; fi
  rm -rf "$work/crates"
  mkdir -p "$work/crates/src"
  : >"$work/crates/src/lib.rs"
  cat >"$work/crates/Cargo.toml" <<END
[package]
name = "peers"
version = "0.0.0"
edition = "2021"
[dependencies]
$snmalloc_crate = "=$snmalloc_version"
$mimalloc_crate = "=$mimalloc_version"
[workspace]
END
  (cd "$work/crates" && quietly cargo vendor vendor) || die "cargo cannot fetch $snmalloc_crate and $mimalloc_crate"
}

build_snmalloc() {
  local sources=$work/crates/vendor/$snmalloc_crate/upstream build=$work/snmalloc-build
  if [ ! -e "$out/snmalloc.so" ]; then
    fetch_crates
    need cmake cmake
    need make make
    # Its own build files and its default (Release) flags.
    rm -rf "$build"
    quietly cmake -S "$sources" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF \
      -DSNMALLOC_STATIC_LIBRARY=OFF || die "snmalloc does not configure"
    quietly cmake --build "$build" --target snmallocshim || die "snmalloc does not compile"
    cp "$build/libsnmallocshim.so" "$out/snmalloc.so"
    echo "$snmalloc_crate $snmalloc_version" >"$work/snmalloc.version"
  fi
  check snmalloc
  say "snmalloc: $(cat "$work/snmalloc.version")"
}

build_mimalloc3() {
  local sources=$work/crates/vendor/$mimalloc_crate/c_src/mimalloc/v3 version
  if [ ! -e "$out/mimalloc3.so" ]; then
    fetch_crates
    # The crate leaves out a file that mimalloc's CMake needs, so: the flags of its release build,
    # on its one-file form, which gives the compiler the most to inline.
    quietly gcc -std=gnu11 -O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB \
      -DMI_SHARED_LIB_EXPORT -I"$sources/include" -I"$sources/src" -fPIC -fvisibility=hidden \
      -ftls-model=initial-exec -fno-builtin-malloc -shared "$sources/src/static.c" \
      -o "$work/mimalloc3.so" -pthread -lrt || die "mimalloc 3 does not compile"
    mv "$work/mimalloc3.so" "$out/mimalloc3.so"
    version=$(sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\).*/\1/p' "$sources/include/mimalloc.h")
    printf '%d.%d.%d (%s %s)\n' $((version / 10000)) $((version / 100 % 100)) $((version % 100)) \
      "$mimalloc_crate" "$mimalloc_version" >"$work/mimalloc3.version"
  fi
  check mimalloc3
  say "mimalloc3: $(cat "$work/mimalloc3.version")"
}

build_prototype() {
  local source=$1
  [ -f "$source" ] || die "LOFT_PROTOTYPE: no file $source"
  if [ ! -e "$out/prototype.so" ] || [ "$source" -nt "$out/prototype.so" ]; then
    quietly g++ -std=c++20 -O3 -march=x86-64-v3 -fPIC -shared -fvisibility=hidden -fno-exceptions \
      -fno-rtti -fno-builtin -ftls-model=initial-exec -DHANDCAP=256 "$source" \
      -o "$out/prototype.so" || die "the prototype does not compile"
    echo "HANDCAP=256" >"$work/prototype.version"
  fi
  check prototype
  say "prototype: $(cat "$work/prototype.version")"
}

write_versions() {
  local name separator=
  {
    echo '{'
    for name in mimalloc2 jemalloc tcmalloc tbbmalloc snmalloc mimalloc3 prototype; do
      [ -e "$out/$name.so" ] || continue
      printf '%s  "%s": "%s"' "$separator" "$name" "$(cat "$work/$name.version")"
      separator=$',\n'
    done
    printf '\n}\n'
  } >"$out/versions.json"
}

mkdir -p "$work"
: >"$log"
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "only x86-64 Linux is supported"
need g++ g++
need nm binutils
from_debian mimalloc2 libmimalloc2.0 libmimalloc.so.2
from_debian jemalloc libjemalloc2 libjemalloc.so.2
from_debian tcmalloc libtcmalloc-minimal4 libtcmalloc_minimal.so.4
from_debian tbbmalloc libtbbmalloc2 libtbbmalloc_proxy.so.2
build_snmalloc
build_mimalloc3
if [ -n "${LOFT_PROTOTYPE:-}" ]; then build_prototype "$LOFT_PROTOTYPE"; fi
write_versions
say "all in ${out#"$root"/}"
