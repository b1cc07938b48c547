# LOFT_GLIBC=2.28: what is linked runs with that glibc and all later ones. tools/old_glibc.py says how.
set(LOFT_GLIBC "" CACHE STRING "The oldest glibc that the libraries run with; empty: the one that is here")
if(LOFT_GLIBC)
  if(NOT Python3_FOUND)
    message(FATAL_ERROR "LOFT_GLIBC needs python3, which reads the symbols of libc; install it, or leave LOFT_GLIBC empty")
  endif()
  set(loft_old_glibc ${CMAKE_BINARY_DIR}/glibc-${LOFT_GLIBC})
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/old_glibc.py --glibc ${LOFT_GLIBC} --compiler
            ${CMAKE_CXX_COMPILER} --output ${loft_old_glibc}
    RESULT_VARIABLE loft_failed)
  if(loft_failed)
    message(FATAL_ERROR "The libraries of glibc ${LOFT_GLIBC} could not be made, see above")
  endif()
  link_directories(BEFORE ${loft_old_glibc})
  add_link_options(LINKER:--as-needed)
endif()
