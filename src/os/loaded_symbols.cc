// Edits glibc's symbol table in memory. The loader reads the table, and nobody else writes it. The
// pages that are written here become private copies of the process.
#include <link.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/keep.h"
#include "os/loaded_object.h"
#include "os/os.h"
#include "os/symbols.h"

namespace loft::os {

namespace {

struct Renaming {
  const Symbol* symbols;
  size_t count;
  bool refused;
};

// False if the system refuses to make the table writable.
bool rename_in(const LoadedObject& object, const Symbol* symbols, size_t count) {
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  const auto each_other = [&](auto&& visit) {
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Addr) value = object.value_of(symbols[i].meaning);
      object.each_named(symbols[i].name, [&](ElfW(Sym) & symbol) {
        if (is_function(symbol) && symbol.st_value != value) visit(symbol, value);
      });
    }
  };
  each_other([&](const ElfW(Sym) & symbol, ElfW(Addr)) {
    begin = least(begin, reinterpret_cast<uintptr_t>(&symbol));
    end = most(end, reinterpret_cast<uintptr_t>(&symbol + 1));
  });
  if (end == 0) return true;
  const LoadedObject::Mapping mapping = object.mapping_of(begin, end);
  const uintptr_t from = round_down(mapping.begin, page_size());
  auto* const at = reinterpret_cast<void*>(from);
  const size_t bytes = round_up(mapping.end, page_size()) - from;
  if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  each_other([](ElfW(Sym) & symbol, ElfW(Addr) value) {
    // Relaxed: a lookup by another thread may find either the old meaning or the new one.
    __atomic_store_n(&symbol.st_value, value, __ATOMIC_RELAXED);
  });
  mprotect(at, bytes, mapping.protection);
  return true;
}

// Runs under a lock of the loader: one thread at a time, and the object cannot be unloaded.
int visit_object(dl_phdr_info* info, size_t, void* context) {
  auto* const renaming = static_cast<Renaming*>(context);
  LoadedObject object(*info);
  if (!object.find_tables() || !object.is_libc()) return 0;
  renaming->refused = !rename_in(object, renaming->symbols, renaming->count);
  return 1;
}

struct ExportSearch {
  const char* name;
  bool found;
};

// As above. The loader looks through the objects in this order.
int look_into_object(dl_phdr_info* info, size_t, void* context) {
  auto* const search = static_cast<ExportSearch*>(context);
  LoadedObject object(*info);
  if (object.contains(reinterpret_cast<const void*>(&look_into_object))) return 1;
  if (object.find_tables())
    object.each_named(search->name, [&](const ElfW(Sym)&) { search->found = true; });
  return search->found ? 1 : 0;
}

}  // namespace

bool is_defined_before(const char* name);
bool is_defined_before(const char* name) {
  const KeepErrno keep;
  ExportSearch search{name, false};
  dl_iterate_phdr(look_into_object, &search);
  return search.found;
}

bool rename_in_libc(const Symbol* symbols, size_t count) {
  const KeepErrno keep;
  Renaming renaming{symbols, count, false};
  dl_iterate_phdr(visit_object, &renaming);
  return !renaming.refused;
}

}  // namespace loft::os
