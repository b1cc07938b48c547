#include "inspect/touched.h"

#include <errno.h>
#include <sys/auxv.h>

#include "base/bits.h"
#include "base/raw_file.h"

namespace loft::inspect {

Touched::Touched() : file_(raw::open_file("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

Touched::~Touched() {
  if (file_ >= 0) raw::close_file(file_);
}

// False if the system does not tell.
bool Touched::ask(uintptr_t page, size_t most) {
  const size_t wanted = least(most, kMostEntries) * sizeof(uint64_t);
  long got = 0;
  do {
    got = raw::read_file_at(file_, entries_, wanted, page * sizeof(uint64_t));
  } while (got < 0 && errno == EINTR);
  first_ = page;
  last_ = page + (got < 0 ? 0 : static_cast<size_t>(got) / sizeof(uint64_t));
  return last_ != page;
}

void Touched::begin(uintptr_t from, uintptr_t end) {
  from_ = from;
  end_ = end;
  first_ = last_ = 0;  // what was told may have changed
}

Touched::Range Touched::next() {
  const size_t size = getauxval(AT_PAGESZ);
  Range found = {end_, end_};
  for (uintptr_t page = from_ / size; from_ < end_; from_ = ++page * size) {
    const bool known = page >= first_ && page < last_;
    if (!known && (file_ < 0 || !ask(page, (end_ - 1) / size + 1 - page))) {
      found.begin = least(found.begin, from_);
      break;  // to the end
    }
    const bool holds = may_hold(entries_[page - first_]);
    if (holds) found.begin = least(found.begin, from_);
    if (!holds && found.begin != end_) {
      found.end = from_;
      return found;
    }
  }
  from_ = end_;
  return found;
}

}  // namespace loft::inspect
