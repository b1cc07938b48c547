// Statistics: reads the floors below, never steers them, waits for no lock and allocates nothing.
#pragma once

#include "loft/loft.h"
#include "stats/books.h"
#include "stats/residents.h"

namespace loft {

// One row for each size class, and the last one for large objects.
inline constexpr size_t kStatsRows = kSizeClasses + 1;

// One reading of everything. Threads that run meanwhile cannot break the identity: where what is
// read of them does not fit together, parts are cut to what does.
class Stats {
 public:
  Stats();

  const loft_stats_t& all() const { return all_; }  // but struct_size
  loft_class_stats_t row(size_t i) const;           // i < kStatsRows

 private:
  loft_class_stats_t row_of_class(SizeClass c) const;
  loft_class_stats_t row_of_large() const;
  void add_row(const loft_class_stats_t& row);
  void add_free_spans();

  loft_stats_t all_ = {};
  Books books_;
  Residents residents_;
  bool huge_pages_;  // there are some, or there may be
};

// The fields that counters tell, without a system call. Those of the identity, for which the system
// has to be asked, are zero, and `group_processors` is the group's share alone.
loft_stats_t counted_stats();
// No more than the process may run on; asks the system.
void limit_processors(loft_stats_t& stats);

}  // namespace loft
