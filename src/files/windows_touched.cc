// Windows is not asked which pages hold something: all may.
#include "files/touched.h"

namespace loft::files {

Touched::Touched() : file_(-1), entries_(nullptr) {}
Touched::~Touched() = default;

void Touched::begin(uintptr_t from, uintptr_t end) {
  from_ = from;
  end_ = end;
}

Touched::Range Touched::next() {
  const Range all = {from_, end_};
  from_ = end_;
  return all;
}

}  // namespace loft::files
