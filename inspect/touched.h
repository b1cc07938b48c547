// Which pages of a range of the process's private memory may hold something: those that are there,
// and those that are swapped out. A page that was never written holds zeros, and reading it would
// give it a page table.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace loft::inspect {

// Too long for a stack. May change errno.
class Touched {
 public:
  // Where the system does not tell, all pages may hold something.
  Touched();
  ~Touched();
  Touched(const Touched&) = delete;
  Touched& operator=(const Touched&) = delete;

  struct Range {
    uintptr_t begin;
    uintptr_t end;
  };
  // Sets the range for `next` to [from, end).
  void begin(uintptr_t from, uintptr_t end);
  // The next part of it that may hold something; empty at `end` if there is none any more.
  Range next();

  // What the system says of a page, in /proc/PID/pagemap: it has memory, or is swapped out.
  static constexpr bool may_hold(uint64_t entry) { return entry >> 62 != 0; }

 private:
  bool ask(uintptr_t page, size_t most);

  static constexpr size_t kMostEntries = 8192;
  int file_;
  uintptr_t first_ = 0;  // number of a page
  uintptr_t last_ = 0;   // the one behind these
  uintptr_t from_ = 0;
  uintptr_t end_ = 0;
  uint64_t entries_[kMostEntries];  // of the pages from first_ on
};

}  // namespace loft::inspect
