# 64-bit RISC-V, by Debian's compiler (g++-riscv64-linux-gnu). QEMU runs the tests.
set(loft_machine riscv64)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
