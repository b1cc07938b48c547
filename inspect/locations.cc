#include "inspect/locations.h"

#include <string.h>

#include "base/bits.h"
#include "files/mappings.h"
#include "inspect/memory.h"

namespace loft::inspect {

namespace {

bool copy_code(void* to, uintptr_t from, size_t bytes) {
  return copy_if_there(to, from, bytes) == bytes;
}

}  // namespace

const char* Code::base_name() const {
  const char* const slash = strrchr(name, '/');
  return slash != nullptr ? slash + 1 : name;
}

// Returns how many mappings have code, and notes those that codes_ has room for.
size_t Locations::read_mappings() {
  const Borrowed<files::Mappings> all;
  if (!all.is_there()) return 0;
  files::Mapping mapping;
  files::Mapping first = {};  // of the last file
  size_t count = 0;
  while (all->next(&mapping)) {
    if (mapping.offset == 0 && mapping.readable) first = mapping;
    if (!mapping.executable || ++count > code_limit_) continue;
    Code& code = codes_[code_count_++];
    code.begin = mapping.begin;
    code.end = mapping.end;
    code.offset = mapping.offset;
    memcpy(code.name, mapping.name, least(mapping.name_bytes, sizeof(code.name) - 1));
    if (first.file != mapping.file) continue;
    code.build_id_bytes = find_build_id(first.begin, first.end, copy_code, code.build_id);
  }
  return count;
}

Locations::Locations(const profile::Site* newest) {
  size_t frames = 0;
  for (const profile::Site* site = newest; site != nullptr; site = site->older) {
    frames += site->depth;
  }
  for (slots_ = 64; slots_ < 2 * frames; slots_ *= 2) {
  }
  addresses_ = static_cast<uintptr_t*>(borrow(slots_ * sizeof(uintptr_t)));
  if (addresses_ == nullptr) return;
  for (const profile::Site* site = newest; site != nullptr; site = site->older) {
    for (unsigned i = 0; i < site->depth; ++i) {
      addresses_[slot_of(site->frames()[i])] = site->frames()[i];
    }
  }
  const size_t limit = read_mappings() + 16;  // mapped meanwhile
  codes_ = static_cast<Code*>(borrow(limit * sizeof(Code)));
  if (codes_ == nullptr) return;
  code_limit_ = limit;
  read_mappings();
}

Locations::~Locations() {
  give_back(addresses_, slots_ * sizeof(uintptr_t));
  give_back(codes_, code_limit_ * sizeof(Code));
}

// Where it is, or would be.
size_t Locations::slot_of(uintptr_t address) const {
  size_t slot = (address * 0x9E3779B97F4A7C15u >> 20) & (slots_ - 1);
  while (addresses_[slot] != 0 && addresses_[slot] != address) slot = (slot + 1) & (slots_ - 1);
  return slot;
}

size_t Locations::code_of(uintptr_t address) const {
  size_t low = 0;
  for (size_t high = code_count_; low < high;) {
    const size_t middle = (low + high) / 2;
    if (codes_[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < code_count_ && codes_[low].begin <= address ? low + 1 : 0;
}

}  // namespace loft::inspect
