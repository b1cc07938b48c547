# What is built for Windows: loft.a for programs, loft.dll, which puts loft before the C runtimes of a process when it
# is loaded, and loft-run.exe, which starts a program with it. Included by CMakeLists.txt.
enable_language(C)

set(loft_windows_options -static-libgcc LINKER:--gc-sections)
add_library(loft_static STATIC $<TARGET_OBJECTS:loft_core_objects> $<TARGET_OBJECTS:loft_override_objects>)
target_include_directories(loft_static INTERFACE ${loft_public_include})
target_link_libraries(loft_static PUBLIC synchronization)
set_target_properties(loft_static PROPERTIES OUTPUT_NAME loft EXPORT_NAME static LINKER_LANGUAGE CXX)

loft_object_library(loft_loaded_objects ${loft_loaded_sources})
add_library(loft_shared SHARED $<TARGET_OBJECTS:loft_core_objects> $<TARGET_OBJECTS:loft_loaded_objects>
                               ${CMAKE_CURRENT_LIST_DIR}/loft.def)
target_include_directories(loft_shared INTERFACE ${loft_public_include})
# The C compiler links: nothing of the C++ library.
set_target_properties(loft_shared PROPERTIES PREFIX "" OUTPUT_NAME loft EXPORT_NAME shared LINKER_LANGUAGE C)
target_link_options(loft_shared PRIVATE ${loft_windows_options})
target_link_libraries(loft_shared PRIVATE synchronization)

add_executable(loft_run ${PROJECT_SOURCE_DIR}/launcher/windows_run.c)
set_target_properties(loft_run PROPERTIES OUTPUT_NAME loft-run)

add_library(loft::static ALIAS loft_static)
add_library(loft::shared ALIAS loft_shared)
install(
  TARGETS loft_shared loft_static loft_run
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/loft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
