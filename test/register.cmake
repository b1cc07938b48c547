# Registers the tests of a program with ctest, each to run in a process of its own. ctest reads this file, so that a broken
# malloc fails a test and not the build. (gtest_discover_tests can pass neither two labels nor two variables.)
#
# loft_register(COMMAND PREFIX FILTER LABELS ENVIRONMENT TIMEOUT PROCESSORS): those that the filter lets through, named
# PREFIX.Suite.Name. The command is the program, or one that plays its processor and the program.
function(loft_register command prefix filter labels environment timeout processors)
  set(names)
  list(GET command -1 program)
  if(EXISTS ${program})
    execute_process(
      COMMAND ${command} --gtest_list_tests "--gtest_filter=${filter}"
      OUTPUT_VARIABLE names
      RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      set(names)
    endif()
  endif()
  string(REGEX REPLACE "#[^\n]*|Running main[^\n]*" "" names "${names}")
  string(REGEX MATCHALL "[^ \n]+" names "${names}")
  if(NOT names)
    # It fails with what the program, or the lack of it, has to say.
    set(names is_built_and_lists_its_tests)
  endif()
  foreach(word IN LISTS names)
    if(word MATCHES "\\.$")
      set(suite ${word})
      continue()
    endif()
    set(name ${prefix}.${suite}${word})
    add_test(${name} ${command} "--gtest_filter=${suite}${word}" --gtest_brief=1)
    set_tests_properties(
      ${name}
      PROPERTIES LABELS "${labels}" ENVIRONMENT "${environment}" TIMEOUT ${timeout} PROCESSORS ${processors}
                 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  endforeach()
endfunction()
