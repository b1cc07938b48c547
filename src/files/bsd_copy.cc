// Without a call that copies from an address that may not be there: each page is asked about first.
// Who unmaps memory between the question and the copy ends the program.
#include "base/bits.h"
#include "files/output.h"
#include "os/os.h"
#include "unwind/stack.h"

namespace loft::files {

size_t copy_if_there(void* to, uintptr_t from, size_t bytes) {
  const size_t page = os::page_size();
  size_t copied = 0;
  while (copied != bytes) {
    const uintptr_t at = from + copied;
    if (!unwind::is_readable(round_down(at, page))) break;
    const size_t part = least(bytes - copied, round_down(at, page) + page - at);
    __builtin_memcpy(static_cast<char*>(to) + copied, reinterpret_cast<const void*>(at), part);
    copied += part;
  }
  return copied;
}

}  // namespace loft::files
