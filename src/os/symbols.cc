#include <link.h>

#include "base/macros.h"
#include "os/loaded_object.h"
#include "os/symbols.h"

namespace loft::os {

// Only libloft.so has it: os/loaded_symbols.cc.
[[gnu::weak]] bool is_defined_before(const char* name);

bool is_own_library() { return is_defined_before != nullptr; }

bool has_another(const char* name) { return !is_own_library() || is_defined_before(name); }

namespace {

struct SymbolSearch {
  Wanted* wanted;
  size_t count;
};

LOFT_AT_LOAD int look_for_libc(dl_phdr_info* info, size_t, void* context) {
  const auto* const search = static_cast<const SymbolSearch*>(context);
  LoadedObject object(*info);
  if (!object.find_tables() || !object.is_a_part_of_libc()) return 0;
  bool all = true;
  for (size_t i = 0; i < search->count; ++i) {
    Wanted& wanted = search->wanted[i];
    if (wanted.found != 0) continue;
    object.each_named(wanted.name, [&](const ElfW(Sym) & symbol) {
      if (is_function(symbol)) wanted.found = object.address_of(symbol);
    });
    all = all && wanted.found != 0;
  }
  return all ? 1 : 0;
}

}  // namespace

LOFT_AT_LOAD void find_in_libc(Wanted* wanted, size_t count) {
  SymbolSearch search{wanted, count};
  dl_iterate_phdr(look_for_libc, &search);
}

}  // namespace loft::os
