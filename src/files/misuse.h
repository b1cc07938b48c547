// Reports of misuse for others than who reads standard error: a file, and a function of the
// program. A report is then a block of text: the line that os::misuse was given, what lies at the
// address, and the stack (docs/internals/reports.md). Without either it is the line alone.
//
// Reports are made where misuse is found: inside of calls, with locks of any floor held. Nothing
// here allocates, waits, or asks anybody who might.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text.h"
#include "files/handler.h"

namespace loft::files {

// Makes os::misuse report here. `describe` says what lies at an address, in one line.
void begin_reports(Text (*describe)(const void* p));

// After the option report_file or the handler was set: makes ready to follow stacks, if it is to be
// done. It may allocate and take the loader's lock.
void follow_reports();

// As os::misuse, with stacks that were kept: always a block of text, with the calling thread's own
// stack first. `open` of files/inspect.h has been called.
struct Stack {
  const char* what;  // "allocated"
  uint64_t thread;
  const uintptr_t* frames;
  size_t depth;
};
void tell_with_stacks(const Text& what, const Stack* stacks, size_t count);

// Two threads must not set it at the same time. nullptr: none.
void set_misuse_handler(TextHandler handler, void* closure);

}  // namespace loft::files
