#include "api/info.h"

#include <stddef.h>

#include "base/bits.h"
#include "base/keep_errno.h"
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

}  // namespace loft
