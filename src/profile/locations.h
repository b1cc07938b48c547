// The addresses of all frames, each once, and the mappings that they lie in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "files/mappings.h"

namespace loft::profile {

struct Code {
  uintptr_t begin;
  uintptr_t end;
  uint64_t offset;
  char name[512];
  uint8_t build_id[64];
  size_t build_id_bytes;

  const char* base_name() const;
};

class Locations {
 public:
  // Reads all sites and mappings. False without memory.
  Locations();
  ~Locations();
  Locations(const Locations&) = delete;
  Locations& operator=(const Locations&) = delete;

  bool is_complete() const { return addresses_ != nullptr && codes_ != nullptr; }

  // From 1 on, in no order; 0: the address is younger than this.
  size_t id_of(uintptr_t address) const;

  // Slots of the table: addresses, or 0.
  size_t slots() const { return slots_; }
  uintptr_t address_at(size_t slot) const { return addresses_[slot]; }

  size_t code_count() const { return code_count_; }
  const Code& code(size_t i) const { return codes_[i]; }
  // From 1 on; 0 for none.
  size_t code_of(uintptr_t address) const;

 private:
  static void add_code(void* self, const files::Mapping& mapping);
  static void count_code(void* count, const files::Mapping& mapping);

  uintptr_t* addresses_ = nullptr;  // open hashing
  size_t slots_ = 0;
  Code* codes_ = nullptr;
  size_t code_count_ = 0;
  size_t code_limit_ = 0;
};

}  // namespace loft::profile
