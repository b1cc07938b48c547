#!/bin/sh
# Installs what groups of targets need and this machine lacks: setup.sh build|cli|test|night|weekly|format|bench|papers|booted|depth|docs
# Each format of tools/packages.py is a group, too: source|meson|vcpkg|tar|deb|rpm|apk|image.
# Looks first and installs only what is missing, so every make target can call it.
set -eu

# package, what shows that it is there (a command, a path pattern, or a python import), why it is needed
# cargo-web is Debian 12's newer cargo: the older one wants the whole index of crates first.
build_group='
cmake           cmake                                   builds everything
ninja-build     ninja                                   builds everything
g++             g++                                     compiles loft
python3         python3                                 runs the tools
'
test_group='
ccache                  ccache                                  compiles what did not change no second time
git                     git                                     a program to run under loft
python3-venv            import:ensurepip,venv                   keeps the Python tools out of the system
libgtest-dev            /usr/include/gtest/gtest.h              the test framework
libgmock-dev            /usr/include/gmock/gmock.h              the test framework
clang-19                clang++-19                              the second compiler, and the sanitizers
libclang-rt-19-dev      /usr/lib/llvm-19/lib/clang/19/lib/linux/*tsan*.a  the sanitizers
clang-format-19         clang-format-19                         checks the formatting
clang-tidy-19           clang-tidy-19                           checks the code
binutils                readelf                                 looks into libloft.so
python3                 /usr/bin/python3                        a program to run under loft
sqlite3                 sqlite3                                 a program to run under loft
redis-server            redis-server                            a program to run under loft
redis-tools             redis-benchmark                         a program to run under loft
perl                    perl                                    a program to run under loft
lua5.4                  lua5.4                                  a program that the ledger counts
jq                      jq                                      a program that the ledger counts
gawk                    gawk                                    a program that the ledger counts
ruby                    ruby                                    a program that the ledger counts
libxml2-utils           xmllint                                 a program that the ledger counts
php-cli                 php                                     a program to run under loft
cargo-web               cargo                                   a program to run under loft
rustc-web               rustc                                   compiles a program that leaks
nodejs                  node                                    a program to run under loft
default-jdk-headless    javac                                   a program to run under loft
findutils               find                                    a program to run under loft
tar                     tar                                     a program to run under loft
xz-utils                xz                                      a program to run under loft
strace                  strace                                  counts system calls at start-up
xalan                   xalan                                   a program to run under loft
valgrind                valgrind                                a tool that puts its own malloc in the place of another
gdb                     gcore                                   the core of a process under loft
protobuf-compiler       protoc                                  writes and reads heap profiles
chromium-headless-shell chromium-headless-shell                 opens the pages that loft writes
libdevel-nytprof-perl   /usr/share/perl5/Devel/NYTProf/flamegraph.pl  draws stacks that loft writes
python3-dev             /usr/include/python3*/Python.h          compiles a module of Python
pkg-config              pkg-config                              tells compilers where loft is
curl                    curl                                    asks a socket, as the pages do
'
source_group='
python3         python3                                 runs the tools
git             git                                     knows the files and the moment of the commit
'
cross_group='
g++-aarch64-linux-gnu   aarch64-linux-gnu-g++                   compiles for another processor
'
musl_group='
musl-tools              musl-gcc                                another C library
'
manual_group='
python3-typer           /usr/lib/python3/dist-packages/typer    writes its manual page
python3-rich            /usr/lib/python3/dist-packages/rich     writes its manual page
python3-psutil          /usr/lib/python3/dist-packages/psutil   writes its manual page
python3-pyelftools      /usr/lib/python3/dist-packages/elftools  writes its manual page
python3-zstandard       /usr/lib/python3/dist-packages/zstandard  writes its manual page
python3-jinja2          /usr/lib/python3/dist-packages/jinja2   writes its manual page
'
deb_group='
debhelper               dh                                      makes packages of Debian
dh-python               dh_python3                              makes the package of the command
dpkg-dev                dpkg-source                             makes source packages, and unpacks those of others
'
rpm_group='
rpm                     rpmbuild                                makes packages of rpm
'
packages_group=$source_group$cross_group$musl_group$manual_group$deb_group$rpm_group
night_group='
libpython3.11-testsuite /usr/lib/python3.11/test/test_json      its own tests, to run under loft
stress-ng               stress-ng                               its stressors, to run under loft
tcl-dev                 /usr/lib/tclConfig.sh                   runs the tests of redis, and is a part of those of SQLite
zlib1g-dev              /usr/include/zlib.h                     compiles git, whose tests run under loft
g++-riscv64-linux-gnu   riscv64-linux-gnu-g++                   compiles for a third processor
qemu-user               qemu-aarch64                            plays those processors
lintian                 lintian                                 looks into packages of Debian
mmdebstrap              mmdebstrap                              a root to install them in
abigail-tools           abidw                                   describes the interface of a library
systemd                 systemd-analyze                         reads a drop-in
rust-web-clippy         cargo-clippy                            checks the Rust crates
rustfmt-web             cargo-fmt                               checks their formatting'
format_group='
clang-format-19         clang-format-19                         formats the code
python3-venv            import:ensurepip,venv                   keeps the Python tools out of the system
'
cli_group='
python3-venv            import:ensurepip,venv                   keeps the Python tools out of the system
'
bench_group='
xalan                   xalan                                   transforms documents under each allocator
perl                    perl                                    is recorded, and replayed under each allocator
sqlite3                 sqlite3                                 is recorded, and replayed under each allocator
python3                 /usr/bin/python3                        is recorded, and replayed under each allocator
linux-perf              perf                                    counts cycles and misses where the machine can
python3-venv            import:ensurepip,venv                   keeps the Python tools out of the system
'
papers_group='
valgrind        valgrind                                simulates caches
sqlite3         sqlite3                                 runs under each allocator
libpython3.11-testsuite /usr/lib/python3.11/test/test_json      runs under each allocator
z3              z3                                      runs under each allocator
ghostscript     gs                                      runs under each allocator
rocksdb-tools   db_bench                                runs under each allocator
redis-server    redis-server                            runs under each allocator
redis-tools     redis-benchmark                         asks it
perl            perl                                    runs under each allocator
gcc             gcc                                     runs under each allocator
xz-utils        xz                                      runs under each allocator
x264            x264                                    runs under each allocator
sjeng           /usr/games/sjeng                        runs under each allocator
'

booted_group='
qemu-system-x86         qemu-system-x86_64                      boots another kernel
qemu-system-arm         qemu-system-aarch64                     boots a kernel of another processor
cpio                    cpio                                    makes the root that it starts with
'
depth_group='
llvm-19                 llvm-cov-19                             reads what coverage counts
'
docs_group='
doxygen                 doxygen                                 makes the reference from the headers
graphviz                dot                                     draws the figures
'

present() {
  case $1 in
    import:*) python3 -c "import ${1#import:}" >/dev/null 2>&1 ;;
    /*) for path in $1; do [ -e "$path" ] && return 0; done; return 1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

[ $# -gt 0 ] || { echo "usage: setup.sh GROUP..." >&2; exit 2; }
wanted=''
for group in "$@"; do
  case $group in
    build) more=$build_group ;;
    cli) more=$build_group$cli_group ;;
    test) more=$build_group$test_group ;;
    night) more=$build_group$test_group$packages_group$night_group$booted_group ;;
    weekly) more=$build_group$test_group$packages_group$night_group$booted_group$bench_group$papers_group$depth_group ;;
    format) more=$format_group ;;
    bench) more=$build_group$bench_group ;;
    papers) more=$build_group$bench_group$papers_group ;;
    booted) more=$build_group$test_group$packages_group$night_group$booted_group ;;
    depth) more=$build_group$test_group$depth_group ;;
    docs) more=$docs_group ;;
    source|meson|vcpkg) more=$source_group ;;
    tar) more=$build_group$source_group$cross_group ;;
    deb) more=$build_group$source_group$manual_group$deb_group ;;
    rpm) more=$build_group$source_group$manual_group$rpm_group ;;
    apk) more=$build_group$source_group$musl_group ;;
    image) more=$build_group$source_group$cross_group$musl_group ;;
    *) echo "setup.sh: no group named $group" >&2; exit 2 ;;
  esac
  wanted=$wanted$more
done

missing=''
reasons=''
# The pattern in a probe must reach present() as it stands, hence no globbing here.
while read -r package probe reason; do
  [ -n "$package" ] || continue
  case "$missing " in *" $package "*) continue ;; esac
  if ! present "$probe"; then
    missing="$missing $package"
    reasons="$reasons; $package: $reason"
  fi
done <<LIST
$wanted
LIST
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "loft: 'make' needs what Debian calls$missing; install them with this system's package manager" >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "loft: missing packages; run as root: apt-get install$missing" >&2
  exit 1
fi
echo "loft: installing${reasons#;}"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# `update` does not wait for who holds the lists, as Debian's daily run does: ten minutes, as for the other locks.
update() {
  tries=60
  until apt-get -o DPkg::Lock::Timeout=600 update; do
    tries=$((tries - 1))
    if [ $tries -eq 0 ] || ! grep -q lists/lock "$log"; then return 1; fi
    sleep 10
  done
}
# shellcheck disable=SC2086  # a list of package names
if ! { update &&
       apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "loft: apt-get could not install$missing (full output: $log)" >&2
  exit 1
fi
rm -f "$log"
