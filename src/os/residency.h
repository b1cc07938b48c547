// Which pages of a range have memory behind them, as the system sees it: what counts as resident.
// Asked in pieces, with a little memory of its own, so that nobody is held up and nothing is
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::os {

class Residency {
 public:
  Residency();
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  struct Bytes {
    size_t resident = 0;
    size_t huge = 0;  // of these, in huge pages, as far as the system says
  };

  // What follows is about [from, to), page-aligned addresses. Where nothing is mapped, nothing is
  // resident; but where the system is asked page by page, it says nothing about a piece with a gap.
  void begin(uintptr_t from, uintptr_t to);

  // How much is resident from where the last call ended up to `limit`. Where the system says
  // nothing at all, everything counts as resident.
  Bytes until(uintptr_t limit);

 private:
  struct Run {
    uintptr_t begin;
    uintptr_t end;
    bool huge;
  };
  void look();
  bool look_at_runs(uintptr_t end);  // false, and nothing done, where the system does not know it
  void look_at_pages(uintptr_t end);
  void add(uintptr_t begin, uintptr_t end, bool huge);

  static constexpr unsigned kMostRuns = 64;
  int file_ = -1;        // none: pages are asked for one by one
  uintptr_t known_ = 0;  // how far was looked
  uintptr_t end_ = 0;
  unsigned next_ = 0;
  unsigned count_ = 0;
  Run runs_[kMostRuns];  // of resident pages; from next_ on, not yet told of
};

}  // namespace loft::os
