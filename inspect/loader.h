// What the loader knows of code, asked for by glibc's _dl_find_object: it takes no lock, and may be
// called in a signal handler.
#pragma once

#include <stdint.h>

namespace loft::inspect {

// As glibc has it, since 2.35. Older headers, and musl's, do not have it.
struct FoundObject {
  unsigned long long flags;
  void* begin;
  void* end;
  void* link_map;
  void* header;  // .eh_frame_hdr; nullptr for none
  unsigned long long reserved[7];
};

bool has_finder();

// The executable or library at an address. False for none. It cannot be unloaded as long as the
// calling thread has a function running there.
bool find_object(uintptr_t pc, FoundObject* found);

}  // namespace loft::inspect
