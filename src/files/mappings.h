// What is mapped into the process: /proc/self/maps, read without allocation and without the
// loader's lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loft::files {

struct Mapping {
  uintptr_t begin;
  uintptr_t end;
  uint64_t offset;   // in the file, of `begin`
  const char* name;  // of the file; "" for none
  size_t name_bytes;
  const uint8_t* build_id;  // nullptr: the file has none, or it is not known
  size_t build_id_bytes;    // looked for in executable mappings alone
  bool readable;
  bool writable;
  bool executable;
  bool shared;
};

// Calls `visit` for each mapping, in the order of addresses. What the mapping points to is valid
// during the call. False if the file cannot be read. Build ids are read, if they are wanted, where
// they lie in memory.
using VisitMapping = void (*)(void* context, const Mapping& mapping);
enum class BuildIds : bool { kWanted, kNotWanted };
bool visit_mappings(VisitMapping visit, void* context, BuildIds ids = BuildIds::kWanted);

}  // namespace loft::files
