# What the machines have in common for which Debian has a compiler and a C library (loft_machine).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${loft_machine})
set(CMAKE_C_COMPILER ${loft_machine}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${loft_machine}-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/${loft_machine}-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
# CMake and ctest start every program of the target by this.
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/run.sh;${loft_machine})
