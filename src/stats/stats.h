// Statistics: reads the floors below and never steers them. Waits for no lock; allocates nothing.
#pragma once

#include "loft/loft.h"
#include "stats/books.h"
#include "stats/residents.h"

namespace loft {

// One row for each size class, and a last one for large objects.
inline constexpr size_t kStatsRows = kSizeClasses + 1;

// One reading of everything. The accounting identity (loft.h) holds even while other threads run:
// parts that do not fit together are cut until they do.
class Stats {
 public:
  Stats();

  const loft_stats_t& all() const { return all_; }  // except struct_size
  loft_class_stats_t row(size_t i) const;           // i < kStatsRows

 private:
  loft_class_stats_t row_of_class(SizeClass c) const;
  loft_class_stats_t row_of_large() const;
  void add_row(const loft_class_stats_t& row);
  void add_free_spans();

  loft_stats_t all_ = {};
  Books books_;
  Residents residents_;
  bool huge_pages_;  // huge pages exist, or may exist
};

// The fields that come from counters, without a system call. The fields of the identity need system
// calls, and are zero.
loft_stats_t counted_stats();

}  // namespace loft
