#!/bin/sh
# run.sh MACHINE PROGRAM [ARGUMENT...]: the program under the emulator of its machine. What it sees as its own name is
# again.sh, for a test that starts itself once more: the system does not know the program's machine.
export EMULATED_MACHINE="$1" EMULATED_PROGRAM="$2"
shift 2
# QEMU leaves the limits of a program unset: without this one, what tests the end of memory takes all there is.
ulimit -v 4194304
exec "$(dirname "$0")/again.sh" "$@"
