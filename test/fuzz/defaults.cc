// What the sanitizers are told in every fuzzer. Leaks are the fuzzers' own: a report of misuse
// jumps over destructors, and what loft hands out is no memory of the sanitizer's. A replay asks
// for what was refused when it was recorded.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:allocator_may_return_null=1";
}
