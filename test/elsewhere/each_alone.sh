#!/bin/sh
# each_alone.sh PROGRAM [FILTER]: its tests, or those that the filter lets through, each in a process of its own, as ctest
# runs them. Tells of those that fail.
wrong=0 count=0 suite=
list=$("$1" --gtest_list_tests --gtest_filter="${2:-*}") || exit 1
for word in $(echo "$list" | sed '/^Running main/d; s/#.*//'); do
  case $word in
    *.) suite=$word && continue ;;
  esac
  count=$((count + 1))
  said=$("$1" --gtest_filter="$suite$word" --gtest_brief=1 2>&1) && continue
  echo "$said"
  wrong=$((wrong + 1))
done
echo "$count tests, of which $wrong failed"
[ "$count" -gt 0 ] && [ "$wrong" -eq 0 ]
