#include "api/info.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <iterator>
#include <string_view>

#include "base/bits.h"
#include "loft/loft.h"
#include "observe/stats.h"
#include "os/os.h"

namespace loft {

namespace {

struct Field {
  const char* group;  // a heading; set on the first field of a group
  const char* name;
  uint64_t loft_stats_t::* value;
};

#define LOFT_FIRST(group, name) {group, #name, &loft_stats_t::name}
#define LOFT_NEXT(name) {nullptr, #name, &loft_stats_t::name}
constexpr Field kFields[] = {
    LOFT_FIRST("heaps", heaps),
    LOFT_NEXT(heaps_parked),
    LOFT_NEXT(threads_attached),
    LOFT_FIRST("memory", allocated_bytes),
    LOFT_NEXT(large_bytes),
    LOFT_NEXT(slab_bytes),
    LOFT_NEXT(metadata_bytes),
    LOFT_NEXT(committed_bytes),
    LOFT_NEXT(dirty_bytes),
    LOFT_NEXT(purged_bytes),
    LOFT_FIRST("slabs and caches", slabs_created),
    LOFT_NEXT(slabs_released),
    LOFT_NEXT(refills),
    LOFT_NEXT(flushes),
    LOFT_NEXT(drains),
    LOFT_FIRST("messages", batches_sent),
    LOFT_NEXT(batch_objects),
    LOFT_NEXT(batch_messages),
    LOFT_NEXT(posts),
    LOFT_NEXT(forwards),
    LOFT_NEXT(messages_received),
    LOFT_NEXT(objects_received),
    LOFT_NEXT(turnarounds),
    LOFT_NEXT(locks_taken),
    LOFT_FIRST("large objects and system", large_allocations),
    LOFT_NEXT(large_cache_hits),
    LOFT_NEXT(os_maps),
    LOFT_NEXT(os_purges),
    LOFT_FIRST("threads", threads_started),
    LOFT_NEXT(threads_exited),
    LOFT_NEXT(adoptions),
    LOFT_FIRST("heaps of the program's own", user_heaps),
    LOFT_NEXT(user_heap_bytes),
    LOFT_FIRST("limits", soft_limit_bytes),
    LOFT_NEXT(hard_limit_bytes),
    LOFT_NEXT(group_limit_bytes),
    LOFT_NEXT(group_used_bytes),
    LOFT_NEXT(group_processors),
    LOFT_NEXT(soft_limit_hits),
    LOFT_NEXT(hard_limit_refusals),
};
#undef LOFT_FIRST
#undef LOFT_NEXT
static_assert(sizeof(loft_stats_t) == sizeof(uint64_t) * (1 + std::size(kFields)),
              "every field of loft_stats_t after struct_size stands in the table");

loft_stats_t collected() {
  loft_stats_t stats = {};
  collect(stats);
  return stats;
}

// Text that grows in place and goes out in one write, so that processes that share a standard error
// do not mix their lines.
class Page {
 public:
  [[gnu::format(printf, 2, 3)]] void print(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(buffer_ + size_, sizeof(buffer_) - size_, format, arguments);
    va_end(arguments);
    if (n > 0) size_ = least(size_ + static_cast<size_t>(n), sizeof(buffer_) - 1);
  }
  void write() const { os::write_error(buffer_, size_); }

 private:
  char buffer_[4096];
  size_t size_ = 0;
};

unsigned long long as_printed(uint64_t n) { return n; }

bool in_bytes(const Field& field) { return std::string_view(field.name).ends_with("_bytes"); }

void print_text(Page& page, const loft_stats_t& stats) {
  page.print("loft %s\n", LOFT_VERSION_STRING);
  for (const Field& field : kFields) {
    if (field.group != nullptr) page.print("%s\n", field.group);
    const uint64_t value = stats.*field.value;
    page.print("  %-20s %16llu", field.name, as_printed(value));
    if (in_bytes(field)) page.print("  %8.1f MiB", static_cast<double>(value) / (1 << 20));
    page.print("\n");
  }
}

void print_json(Page& page, const loft_stats_t& stats) {
  page.print("{\"loft\": \"%s\"", LOFT_VERSION_STRING);
  for (const Field& field : kFields) {
    page.print(", \"%s\": %llu", field.name, as_printed(stats.*field.value));
  }
  page.print("}\n");
}

}  // namespace

void print_stats(StatsFormat format) {
  const os::KeepErrno keep;
  const loft_stats_t stats = collected();
  Page page;
  if (format == StatsFormat::kText) {
    print_text(page, stats);
  } else {
    print_json(page, stats);
  }
  page.write();
}

#if defined(__GLIBC__)

struct mallinfo2 memory_info() {
  const loft_stats_t stats = collected();
  struct mallinfo2 info = {};
  info.hblkhd = stats.large_bytes;
  info.uordblks = stats.allocated_bytes - least(stats.allocated_bytes, stats.large_bytes);
  // The figures are of slightly different moments; no sum may come out below one of its parts.
  info.arena = most(size_t{stats.slab_bytes} + stats.dirty_bytes, info.uordblks);
  info.fordblks = info.arena - info.uordblks;
  info.keepcost = stats.dirty_bytes;
  return info;
}

struct mallinfo memory_info_int() {
  const auto narrow = [](size_t n) { return static_cast<int>(least(n, size_t{INT_MAX})); };
  const struct mallinfo2 wide = memory_info();
  struct mallinfo info = {};
  info.arena = narrow(wide.arena);
  info.hblkhd = narrow(wide.hblkhd);
  info.uordblks = narrow(wide.uordblks);
  info.fordblks = narrow(wide.fordblks);
  info.keepcost = narrow(wide.keepcost);
  return info;
}

int write_info_xml(int options, FILE* stream) {
  if (options != 0) return EINVAL;
  const loft_stats_t stats = collected();
  const struct mallinfo2 info = memory_info();
  fprintf(stream,
          "<malloc version=\"1\">\n"
          "<heap nr=\"0\">\n"
          "<sizes>\n</sizes>\n"
          "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
          "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
          "<system type=\"current\" size=\"%zu\"/>\n"
          "</heap>\n"
          "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
          "<total type=\"mmap\" count=\"0\" size=\"%zu\"/>\n"
          "<system type=\"current\" size=\"%llu\"/>\n"
          "<loft version=\"%s\">\n",
          info.fordblks, info.arena, info.fordblks, info.hblkhd, as_printed(stats.committed_bytes),
          LOFT_VERSION_STRING);
  for (const Field& field : kFields) {
    fprintf(stream, "<stat name=\"%s\" value=\"%llu\"/>\n", field.name,
            as_printed(stats.*field.value));
  }
  fprintf(stream, "</loft>\n</malloc>\n");
  return 0;
}

#endif  // __GLIBC__

}  // namespace loft
