# What loft's port calls of vcpkg's, as far as a triplet of Linux with VCPKG_BUILD_TYPE release has it do.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Its one argument must be there, and what is not known must not.
macro(arguments one several)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "${one}" "${several}")
  if(DEFINED given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: ${given_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

# Unpacks an archive without its topmost folder.
function(vcpkg_extract_source_archive path ARCHIVE archive)
  file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${CURRENT_BUILDTREES_DIR}/src")
  file(GLOB unpacked "${CURRENT_BUILDTREES_DIR}/src/*")
  set(${path} "${unpacked}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  arguments(SOURCE_PATH OPTIONS)
  set(shared OFF)
  if(VCPKG_LIBRARY_LINKAGE STREQUAL "dynamic")
    set(shared ON)
  endif()
  # The unity is for the test's speed.
  run(${CMAKE_COMMAND} -G Ninja -S "${given_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}/release"
      -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=${shared} -DCMAKE_INSTALL_LIBDIR=lib
      -DCMAKE_ERROR_ON_ABSOLUTE_INSTALL_DESTINATION=ON "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}"
      -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 ${given_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build "${CURRENT_BUILDTREES_DIR}/release" --target install)
endfunction()

# Moves the package's files to share/PACKAGE_NAME, and has them find the prefix from there.
function(vcpkg_cmake_config_fixup)
  arguments("PACKAGE_NAME;CONFIG_PATH" "")
  set(from "${CURRENT_PACKAGES_DIR}/${given_CONFIG_PATH}")
  file(GLOB files "${from}/*.cmake")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REPLACE "/../../../" "/../../" text "${text}")
    set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    get_filename_component(name "${file}" NAME)
    file(WRITE "${CURRENT_PACKAGES_DIR}/share/${given_PACKAGE_NAME}/${name}" "${text}")
  endforeach()
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake")
endfunction()

# Has each file find the prefix from where it lies.
function(vcpkg_fixup_pkgconfig)
  file(GLOB files "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REGEX REPLACE "(^|\n)prefix=[^\n]*" "\\1prefix=\${pcfiledir}/../.." text "${text}")
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  arguments("" FILE_LIST)
  file(READ "${given_FILE_LIST}" text)
  file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" "${text}")
endfunction()
