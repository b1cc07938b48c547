# Seeded bugs: a text file names them, one a line "== NAME | PROGRAM | FILE" with the change behind it, and
# test/model/mutate.py makes a copy of the file, which is in src/, with that change in it.

# The lines of a text file, into `lines`; one that changes is read again.
macro(loft_mutants lines mutants)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${mutants})
  file(STRINGS ${mutants} ${lines} REGEX "^== ")
endmacro()

# What a line says, into `change`, `program` and `file`; and how its copy is made, into `copy`. Its files are in src/, or
# in a folder that is named behind the others.
macro(loft_mutant line mutants)
  set(sources ${PROJECT_SOURCE_DIR}/src)
  if(${ARGC} GREATER 2)
    set(sources ${ARGV2})
  endif()
  string(REGEX MATCH "^== ([a-z_]+) \\| ([a-z]+) \\| (.*)$" found "${line}")
  set(change ${CMAKE_MATCH_1})
  set(program ${CMAKE_MATCH_2})
  set(file ${CMAKE_MATCH_3})
  set(copies ${CMAKE_CURRENT_BINARY_DIR}/${change})
  set(copy ${copies}/${file})
  add_custom_command(
    OUTPUT ${copy}
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/test/model/mutate.py ${mutants} ${change}
            ${sources} ${copies}
    DEPENDS ${PROJECT_SOURCE_DIR}/test/model/mutate.py ${mutants} ${sources}/${file}
    VERBATIM)
endmacro()
