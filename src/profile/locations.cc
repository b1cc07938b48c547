#include "profile/locations.h"

#include <cstring>

#include "base/bits.h"
#include "files/output.h"
#include "profile/site.h"

namespace loft::profile {

namespace {

size_t first_slot(uintptr_t address, size_t slots) {
  return (address * 0x9E3779B97F4A7C15u >> 20) & (slots - 1);
}

}  // namespace

const char* Code::base_name() const {
  const char* const slash = strrchr(name, '/');
  return slash != nullptr ? slash + 1 : name;
}

void Locations::count_code(void* count, const files::Mapping& mapping) {
  if (mapping.executable) ++*static_cast<size_t*>(count);
}

void Locations::add_code(void* self, const files::Mapping& mapping) {
  auto& locations = *static_cast<Locations*>(self);
  if (!mapping.executable || locations.code_count_ == locations.code_limit_) return;
  Code& code = locations.codes_[locations.code_count_++];
  code.begin = mapping.begin;
  code.end = mapping.end;
  code.offset = mapping.offset;
  memcpy(code.name, mapping.name, least(mapping.name_bytes, sizeof(code.name) - 1));
  code.build_id_bytes = least(mapping.build_id_bytes, sizeof(code.build_id));
  if (code.build_id_bytes != 0) memcpy(code.build_id, mapping.build_id, code.build_id_bytes);
}

Locations::Locations() {
  const Site* const newest = newest_site();
  size_t frames = 0;
  for (const Site* site = newest; site != nullptr; site = site->older) frames += site->depth;
  for (slots_ = 64; slots_ < 2 * frames; slots_ *= 2) {
  }
  addresses_ = static_cast<uintptr_t*>(files::borrow(slots_ * sizeof(uintptr_t)));
  files::visit_mappings(count_code, &code_limit_);
  code_limit_ += 16;  // mapped meanwhile
  codes_ = static_cast<Code*>(files::borrow(code_limit_ * sizeof(Code)));
  if (!is_complete()) return;
  files::visit_mappings(add_code, this);
  for (const Site* site = newest; site != nullptr; site = site->older) {
    for (unsigned i = 0; i < site->depth; ++i) {
      const uintptr_t address = site->frames()[i];
      size_t slot = first_slot(address, slots_);
      while (addresses_[slot] != 0 && addresses_[slot] != address) slot = (slot + 1) & (slots_ - 1);
      addresses_[slot] = address;
    }
  }
}

Locations::~Locations() {
  files::give_back(addresses_, slots_ * sizeof(uintptr_t));
  files::give_back(codes_, code_limit_ * sizeof(Code));
}

size_t Locations::id_of(uintptr_t address) const {
  size_t slot = first_slot(address, slots_);
  while (addresses_[slot] != 0) {
    if (addresses_[slot] == address) return slot + 1;
    slot = (slot + 1) & (slots_ - 1);
  }
  return 0;
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

}  // namespace loft::profile
