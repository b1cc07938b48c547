# 64-bit ARM, by Debian's compiler (g++-aarch64-linux-gnu). QEMU runs the tests.
set(loft_machine aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
