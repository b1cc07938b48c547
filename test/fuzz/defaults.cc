// What the sanitizers are told in every fuzzer. Leaks are the fuzzers' own: a report of misuse
// jumps over destructors, and what loft hands out is no memory of the sanitizer's.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
