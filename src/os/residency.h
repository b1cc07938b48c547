// Which pages of a range are resident, according to the system. It asks the system in pieces, so
// that it delays no other thread. It uses a little memory of its own and allocates nothing.
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
    size_t huge = 0;  // the part of `resident` in huge pages, as far as the system says
  };

  // Sets the range for `until` to [from, to), page-aligned addresses. Unmapped memory is not
  // resident. A kernel that is asked page by page reports nothing for a piece with a gap: such a
  // piece, of up to 64 KiB, counts as not resident.
  void begin(uintptr_t from, uintptr_t to);

  // Resident bytes from the end of the last call up to `limit`. If the system reports nothing at
  // all, everything counts as resident.
  Bytes until(uintptr_t limit);

 private:
  struct Run {
    uintptr_t begin;
    uintptr_t end;
    bool huge;
  };
  void look();
  bool look_at_runs(uintptr_t end);  // if the system cannot, returns false and does nothing
  void look_at_pages(uintptr_t end);
  void add(uintptr_t begin, uintptr_t end, bool huge);

  static constexpr unsigned kMostRuns = 64;
  int file_ = -1;        // -1: none, so the system is asked page by page
  uintptr_t known_ = 0;  // the system was asked up to here
  uintptr_t end_ = 0;
  unsigned next_ = 0;
  unsigned count_ = 0;
  Run runs_[kMostRuns];  // runs of resident pages; those from next_ on are not yet counted
};

}  // namespace loft::os
