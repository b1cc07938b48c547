// The way from a process that is recorded to `loft record`: a named pipe, which takes a chunk as a
// whole.
#ifndef LOFT_TRACE_PIPE_H_
#define LOFT_TRACE_PIPE_H_

#include <stddef.h>

namespace recorder::pipe {

// That of this folder. False if nobody reads from it.
bool open(const char* folder);

// At most a chunk, which arrives whole. All signals are blocked. If it was not sent, `why` says
// what is in the way; null: `loft record` has ended, and nobody wants to know more.
struct Sent {
  bool whole;
  const char* why;
};
Sent send(const void* bytes, size_t length);

}  // namespace recorder::pipe

#endif  // LOFT_TRACE_PIPE_H_
