# 64-bit RISC-V, by Debian's compiler (g++-riscv64-linux-gnu). QEMU runs the tests. The compiler keeps frame pointers
# only if it is told to (the preset does), and loft follows stacks by them.
set(loft_machine riscv64)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
