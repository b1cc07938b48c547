vcpkg_extract_source_archive(
  SOURCE_PATH
  ARCHIVE "${CMAKE_CURRENT_LIST_DIR}/loft-malloc-${VERSION}.tar.gz")

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DLOFT_TESTS=OFF -DLOFT_BENCH=OFF -DLOFT_PAPERS=OFF -DLOFT_COMMAND=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME loft CONFIG_PATH lib/cmake/loft)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" "${SOURCE_PATH}/SECURITY.md" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
