#!/bin/bash
# Builds the allocators that loft is measured against and leaves build/peers/NAME.so for each,
# ready for LD_PRELOAD, with their versions in build/peers/versions.json.
#
#   tcmalloc tbbmalloc                      Debian's own packages, unpacked, not installed
#   snmalloc mimalloc2 mimalloc3 jemalloc   compiled from the sources inside their Rust crates,
#                                           with the flags of their own release builds
#   snmalloc-checks mimalloc3-secure        the same sources, hardened as the papers measured them
#   rpmalloc                                from its crate too; it and the hardened ones are
#                                           measured with the engines of the papers alone
#   scudo                                   Debian's package of LLVM's run-time libraries
#   hardened hardened-light                 GrapheneOS's hardened_malloc, in both of its builds, from
#                                           a crate; these and the hardened ones above stand in
#                                           docs/internals/misuse.md
#   prototype                               only if LOFT_PROTOTYPE names its source
#
# Names those that the papers measured and that neither registry has.
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
jemalloc_crate=tikv-jemalloc-sys
jemalloc_version=0.7.1
rpmalloc_crate=rpmalloc-sys
rpmalloc_version=0.2.3
hardened_crate=hardened-malloc-sys
hardened_version=16.0.2026071503

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
  local crate missing=
  for crate in "$snmalloc_crate" "$mimalloc_crate" "$jemalloc_crate" "$rpmalloc_crate" "$hardened_crate"; do
    [ -d "$work/crates/vendor/$crate" ] || missing=yes
  done
  [ -n "$missing" ] || return 0
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
$jemalloc_crate = "=$jemalloc_version"
$rpmalloc_crate = "=$rpmalloc_version"
$hardened_crate = "=$hardened_version"
[workspace]
END
  (cd "$work/crates" && quietly cargo vendor vendor) || die "cargo cannot fetch the crates"
}

# build_snmalloc NAME TARGET: one of the libraries that snmalloc's own build files make.
build_snmalloc() {
  local name=$1 target=$2
  local sources=$work/crates/vendor/$snmalloc_crate/upstream build=$work/snmalloc-build
  if [ ! -e "$out/$name.so" ]; then
    fetch_crates
    need cmake cmake
    need make make
    # Its own build files and its default (Release) flags.
    rm -rf "$build"
    quietly cmake -S "$sources" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF \
      -DSNMALLOC_STATIC_LIBRARY=OFF || die "snmalloc does not configure"
    quietly cmake --build "$build" --target "$target" || die "$name does not compile"
    cp "$build/lib$target.so" "$out/$name.so"
    echo "$snmalloc_crate $snmalloc_version" >"$work/$name.version"
  fi
  check "$name"
  say "$name: $(cat "$work/$name.version")"
}

# build_mimalloc NAME MAJOR FLAG...
build_mimalloc() {
  local name=$1 sources=$work/crates/vendor/$mimalloc_crate/c_src/mimalloc/v$2 version
  shift 2
  if [ ! -e "$out/$name.so" ]; then
    fetch_crates
    # The crate leaves out a file that mimalloc's CMake needs, so: the flags of its release build,
    # on its one-file form, which gives the compiler the most to inline.
    quietly gcc -std=gnu11 -O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB \
      -DMI_SHARED_LIB_EXPORT "$@" -I"$sources/include" -I"$sources/src" -fPIC -fvisibility=hidden \
      -ftls-model=initial-exec -fno-builtin-malloc -shared "$sources/src/static.c" \
      -o "$work/$name.so" -pthread -lrt || die "$name does not compile"
    mv "$work/$name.so" "$out/$name.so"
    version=$(sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\).*/\1/p' "$sources/include/mimalloc.h")
    printf '%d.%d.%d (%s %s)\n' $((version / 10000)) $((version / 100 % 100)) $((version % 100)) \
      "$mimalloc_crate" "$mimalloc_version" >"$work/$name.version"
  fi
  check "$name"
  say "$name: $(cat "$work/$name.version")"
}

# As its own configure sets it by default, like Debian's package.
build_jemalloc() {
  local crate=$work/crates/vendor/$jemalloc_crate build=$work/jemalloc-build version
  if [ ! -e "$out/jemalloc.so" ]; then
    fetch_crates
    need make make
    rm -rf "$build"
    mkdir -p "$build"
    cp -R "$crate/jemalloc/." "$build"
    # The crate has what autoconf makes beside it.
    cp -R "$crate/configure/." "$build"
    (cd "$build" && quietly sh ./configure --disable-doc && quietly make build_lib_shared) ||
      die "jemalloc does not compile"
    cp -L "$build/lib/libjemalloc.so.2" "$out/jemalloc.so"
    version=$(sed -n 's/^version = "[^+]*+\([0-9.]*\).*/\1/p' "$crate/Cargo.toml" | head -n 1)
    echo "$version ($jemalloc_crate $jemalloc_version)" >"$work/jemalloc.version"
  fi
  check jemalloc
  say "jemalloc: $(cat "$work/jemalloc.version")"
}

# Caveats. Its readme calls the preloaded form a convenience for testing: (a) its list of entry
# points may be incomplete; (b) once the process ends, no thread but the first may call it. It
# learns of threads by replacing pthread_create, and has no handler for forks. reallocarray does not
# look for an overflow, and no operator new throws.
build_rpmalloc() {
  local sources=$work/crates/vendor/$rpmalloc_crate/rpmalloc version
  if [ ! -e "$out/rpmalloc.so" ]; then
    fetch_crates
    # The defines of its library for preloading and the flags of its release build. gcc must not
    # make a call of calloc of what calloc itself does.
    quietly gcc -std=c11 -O3 -DNDEBUG -D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 \
      -I"$sources/rpmalloc" -fPIC -funit-at-a-time -fstrict-aliasing -fno-math-errno \
      -fno-builtin-malloc -fno-builtin-calloc -funroll-loops -shared "$sources/rpmalloc/rpmalloc.c" \
      -o "$work/rpmalloc.so" -pthread -ldl || die "rpmalloc does not compile"
    mv "$work/rpmalloc.so" "$out/rpmalloc.so"
    version=$(sed -n '/^[0-9]/{s/[^0-9.].*//p;q}' "$sources/CHANGELOG")
    echo "$version ($rpmalloc_crate $rpmalloc_version)" >"$work/rpmalloc.version"
  fi
  check rpmalloc
  say "rpmalloc: $(cat "$work/rpmalloc.version")"
}

# build_hardened NAME CONFIGURATION: as its own makefile does, without what needs this very processor.
build_hardened() {
  local name=$1 configuration=$2
  local crate=$work/crates/vendor/$hardened_crate objects=$work/$1-objects part flags
  local sources=$crate/vendor/hardened-malloc
  if [ ! -e "$out/$name.so" ]; then
    fetch_crates
    mapfile -t flags < <(sed -n 's/^\([A-Z_]*=[^ #]*\).*/-D\1/p' "$crate/config-$configuration.conf")
    flags+=(-O3 -fPIC -fvisibility=hidden -fno-plt -D_GNU_SOURCE -I"$sources" -I"$sources/include")
    mkdir -p "$objects"
    for part in chacha h_malloc memory pages random util; do
      # It says alignas as C23 does, which Debian 12's gcc knows by the header alone.
      quietly gcc -std=c2x -include stdalign.h "${flags[@]}" -c "$sources/$part.c" \
        -o "$objects/$part.o" || die "$name does not compile"
    done
    quietly g++ -std=c++20 "${flags[@]}" -c "$sources/new.cc" -o "$objects/new.o" || die "$name does not compile"
    quietly g++ -shared "$objects"/*.o -Wl,-z,now,-z,nodlopen -o "$work/$name.so" -pthread ||
      die "$name does not link"
    mv "$work/$name.so" "$out/$name.so"
    echo "$hardened_crate $hardened_version" >"$work/$name.version"
  fi
  check "$name"
  say "$name: $(cat "$work/$name.version")"
}

# absent NAME WHY: one that the papers measured and that cannot be had.
absent() { say "not $1: $2"; }

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
    for name in mimalloc2 jemalloc tcmalloc tbbmalloc snmalloc mimalloc3 snmalloc-checks \
      mimalloc3-secure rpmalloc scudo hardened hardened-light prototype; do
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
from_debian tcmalloc libtcmalloc-minimal4 libtcmalloc_minimal.so.4
from_debian tbbmalloc libtbbmalloc2 libtbbmalloc_proxy.so.2
build_snmalloc snmalloc snmallocshim
build_mimalloc mimalloc2 2
build_mimalloc mimalloc3 3
build_jemalloc
# BatchIt's "secure" pair.
build_snmalloc snmalloc-checks snmallocshim-checks
# What mimalloc's own -DMI_SECURE=ON sets. The paper's mimalloc is of 2024, and older than this.
build_mimalloc mimalloc3-secure 3 -DMI_SECURE=4
build_rpmalloc
from_debian scudo libclang-rt-19-dev libclang_rt.scudo_standalone-x86_64.so
build_hardened hardened default
build_hardened hardened-light light
tried="apt-cache search and cargo info find no source of it, at most a namesake"
absent Hoard "$tried; papers/a3alloc has the algorithm, as build/papers/hoard.so"
absent lockfree "$tried"
absent lockless "$tried"
absent scalloc "$tried"
absent SuperMalloc "$tried"
if [ -n "${LOFT_PROTOTYPE:-}" ]; then build_prototype "$LOFT_PROTOTYPE"; fi
write_versions
say "all in ${out#"$root"/}"
