#include "api/info.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/keep.h"
#include "files/output.h"
#include "os/fault.h"
#include "os/os.h"
#include "stats/report.h"
#include "stats/stats.h"

namespace loft {

void print_stats() {
  const KeepErrno keep;
  print_last_stats(LOFT_STATS_TEXT);
}

// In one piece, so that what other processes write there does not come between. Not a variable: it
// would count for every program that locks its memory.
void print_last_stats(loft_stats_format_t format) {
  constexpr size_t kBytes = size_t{96} << 10;
  const Stats stats;
  auto* const text = static_cast<char*>(files::borrow(kBytes));
  Output output = text != nullptr ? Output::to_memory(text, kBytes) : Output::to_file(2);
  write_stats(output, stats, format);
  if (text == nullptr) return;
  os::on_text.load(memory_order_acquire)(text, least(output.size(), kBytes - 1));
  files::give_back(text, kBytes);
}

#if defined(__GLIBC__)

struct mallinfo2 memory_info() {
  const loft_stats_t stats = counted_stats();
  struct mallinfo2 info = {};
  info.hblkhd = stats.large_bytes;
  info.uordblks = stats.allocated_bytes - least(stats.allocated_bytes, stats.large_bytes);
  // The figures are from slightly different moments. No sum may be smaller than one of its parts.
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
          "<system type=\"current\" size=\"%zu\"/>\n"
          "</malloc>\n",
          info.fordblks, info.arena, info.fordblks, info.hblkhd, info.arena + info.hblkhd);
  return 0;
}

#endif  // __GLIBC__

}  // namespace loft
