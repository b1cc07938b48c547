// The addresses of all frames, each once, and the mappings that they lie in.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "inspect/build_id.h"
#include "profile/site.h"

namespace loft::inspect {

struct Code {
  uintptr_t begin;
  uintptr_t end;
  uint64_t offset;
  char name[512];
  uint8_t build_id[kLongestBuildId];
  size_t build_id_bytes;

  const char* base_name() const;
};

class Locations {
 public:
  // Of this site and all that are older, and of all mappings.
  explicit Locations(const profile::Site* newest);
  ~Locations();
  Locations(const Locations&) = delete;
  Locations& operator=(const Locations&) = delete;

  // False without memory.
  bool is_complete() const { return addresses_ != nullptr && codes_ != nullptr; }

  // From 1 on, in no order.
  size_t id_of(uintptr_t address) const { return slot_of(address) + 1; }

  // Slots of the table: addresses, or 0.
  size_t slots() const { return slots_; }
  uintptr_t address_at(size_t slot) const { return addresses_[slot]; }

  size_t code_count() const { return code_count_; }
  const Code& code(size_t i) const { return codes_[i]; }
  // From 1 on; 0 for none.
  size_t code_of(uintptr_t address) const;

 private:
  size_t slot_of(uintptr_t address) const;
  size_t read_mappings();

  uintptr_t* addresses_ = nullptr;  // open hashing
  size_t slots_ = 0;
  Code* codes_ = nullptr;
  size_t code_count_ = 0;
  size_t code_limit_ = 0;
};

}  // namespace loft::inspect
