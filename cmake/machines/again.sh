#!/bin/sh
# The program that run.sh has started, once more.
exec "qemu-$EMULATED_MACHINE" -L "/usr/$EMULATED_MACHINE-linux-gnu" -0 "$0" "$EMULATED_PROGRAM" "$@"
