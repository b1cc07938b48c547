#include "stats/stats.h"

#include "base/options.h"
#include "base/peek.h"
#include "slab/geometry.h"
#include "space/window.h"

namespace loft {

loft_stats_t counted_stats() {
  loft_stats_t stats = {};
  Books books;
  read_books(books, stats);
  return stats;
}

Stats::Stats() {
  read_books(books_, all_);
  residents_ = look_at_residents();
  huge_pages_ = residents_.huge != 0 || get(options.thp) == kHugePrefer;
  for (size_t i = 0; i < kStatsRows; ++i) add_row(row(i));
  add_free_spans();
  all_.user_heap_resident_bytes = residents_.user_heaps;
  all_.resident_bytes += residents_.user_heaps;
  all_.metadata_resident_bytes += residents_.metadata;
  all_.resident_bytes += all_.metadata_resident_bytes;
  all_.huge_page_bytes = residents_.huge;
  if (all_.resident_bytes != 0) {
    all_.address_begin = window.pagemap.base;
    all_.address_end = peek(window.heap.committed);
  }
}

loft_class_stats_t Stats::row(size_t i) const {
  return i < kSizeClasses ? row_of_class(static_cast<SizeClass>(i)) : row_of_large();
}

loft_class_stats_t Stats::row_of_class(SizeClass c) const {
  const ClassBooks& books = books_.classes[c];
  const size_t size = geometry(c).size;
  loft_class_stats_t row = {};
  row.object_bytes = size;
  row.slabs_created = books.slabs_created;
  row.slabs_released = books.slabs_released;
  row.slabs = books.slabs_created - books.slabs_released;
  row.refills = books.refills;
  row.objects_refilled = books.taken;
  row.objects_flushed = books.put;
  row.objects_sent = books.sent;
  row.objects_received = books.received;

  const size_t held = least(books.held, books.out);
  const size_t flying = least(books.flying, books.out - held);
  row.live_objects = books.out - held - flying;
  row.cached_bytes = held * size;
  row.in_flight_bytes = flying * size;
  const size_t live = row.live_objects * size;
  if (row.live_objects != 0 && books.taken != 0) {
    // An estimate from the average request. The product may need more than 64 bits.
    __extension__ using Wide = unsigned __int128;
    const Wide asked = Wide{row.live_objects} * books.asked + books.taken / 2;
    row.live_bytes = least(live, static_cast<size_t>(asked / books.taken));
  }
  row.rounding_bytes = live - row.live_bytes;

  const size_t charged = most(books.charged, books.out * size);
  row.free_bytes = charged - books.out * size;
  row.resident_bytes = residents_.classes[c];
  if (row.resident_bytes <= charged) {
    row.untouched_bytes = charged - row.resident_bytes;
  } else {
    // Without huge pages, the excess was charged after the counter was read.
    (huge_pages_ ? row.huge_slack_bytes : row.free_bytes) += row.resident_bytes - charged;
  }
  return row;
}

loft_class_stats_t Stats::row_of_large() const {
  loft_class_stats_t row = {};
  row.live_objects = residents_.live_objects;
  row.live_bytes = residents_.asked;
  row.rounding_bytes = residents_.live - residents_.asked + residents_.behind;
  row.cached_bytes = residents_.kept;
  row.untouched_bytes = residents_.live + residents_.kept - residents_.touched;
  row.free_bytes = residents_.free_in_runs;
  row.resident_bytes = residents_.touched + residents_.behind + residents_.free_in_runs;
  return row;
}

void Stats::add_row(const loft_class_stats_t& row) {
  all_.resident_bytes += row.resident_bytes;
  all_.live_objects += row.live_objects;
  all_.live_bytes += row.live_bytes;
  all_.rounding_bytes += row.rounding_bytes;
  all_.free_in_slabs_bytes += row.free_bytes;
  (row.object_bytes == 0 ? all_.large_cached_bytes : all_.cached_bytes) += row.cached_bytes;
  all_.in_flight_bytes += row.in_flight_bytes;
  all_.huge_slack_bytes += row.huge_slack_bytes;
  all_.untouched_bytes += row.untouched_bytes;
}

// Only resident pages of free spans count. Pages never written are not reported as untouched.
void Stats::add_free_spans() {
  const size_t resident = residents_.free;
  const size_t charged = huge_pages_ ? least(resident, books_.dirty_bytes) : resident;
  all_.resident_bytes += resident;
  all_.huge_slack_bytes += resident - charged;
  all_.purged_charged_bytes = least(charged, books_.refused_bytes);
  all_.free_span_bytes = charged - all_.purged_charged_bytes;
}

}  // namespace loft
