#include "os/symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>

#include "base/macros.h"
#include "os/loaded_object.h"

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

// Older libcs keep them in a library of their own, which a program need not have.
#pragma weak dlopen
#pragma weak dladdr
#pragma weak dlclose
#pragma weak dlerror
#pragma weak dlsym
#if defined(__GLIBC__)
#pragma weak dladdr1
#endif

namespace loft::os {

namespace {

// The C++ library's own forms of operators give way to loft's.
bool is_cxx_library(const char* name) {
  return __builtin_strstr(name, "libstdc++.so") != nullptr ||
         __builtin_strstr(name, "libc++.so") != nullptr;
}

// Where the object has the function itself; nullptr if it has none, or gets it from another one.
const void* function_in(const link_map& object, const char* function) {
  void* const handle = dlopen(object.l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  const void* const found = dlsym(handle, function);
  dlclose(handle);
  Dl_info its;
  if (found == nullptr || dladdr(found, &its) == 0) return nullptr;
  return reinterpret_cast<uintptr_t>(its.dli_fbase) == object.l_addr ? its.dli_fbase : nullptr;
}

}  // namespace

bool is_of_another(const char* function) {
  if (dlsym == nullptr || dladdr == nullptr) return false;
  const void* const found = dlsym(RTLD_DEFAULT, function);
  Dl_info its;
  Dl_info own;
  if (found == nullptr || dladdr(found, &its) == 0) return false;
  if (dladdr(reinterpret_cast<const void*>(&is_of_another), &own) == 0) return false;
  if (its.dli_fbase != own.dli_fbase) return true;
  // A library may bind its own calls to what it exports, such as libLLVM.
  if (dlopen == nullptr || dlclose == nullptr) return false;
  void* const all = dlopen(nullptr, RTLD_LAZY);
  bool is = false;
  for (const auto* at = static_cast<const link_map*>(all); at != nullptr && !is; at = at->l_next) {
    if (at->l_name[0] == 0 || is_cxx_library(at->l_name)) continue;
    const void* const base = function_in(*at, function);
    is = base != nullptr && base != own.dli_fbase;
  }
  if (all != nullptr) dlclose(all);
  return is;
}

void stay_loaded() {
#if defined(__GLIBC__)  // musl unloads nothing
  if (dladdr1 == nullptr || dlopen == nullptr) return;
  Dl_info info;
  void* object = nullptr;
  const auto* const here = reinterpret_cast<const void*>(&stay_loaded);
  if (dladdr1(here, &info, &object, RTLD_DL_LINKMAP) == 0) return;
  const char* const name = static_cast<const link_map*>(object)->l_name;
  // The program itself has no name.
  if (name[0] != 0) dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

const void* open_for_good(const char* path, const char* name, const char** why) {
  *why = "the program is linked statically, and has no loader";
  if (dlopen == nullptr || dlsym == nullptr || dlerror == nullptr) return nullptr;
  // libloft.so's own dlopen binds what is opened to loft, for which it writes to libc's table of
  // names. This is not for a program's plugin.
  using Open = void* (*)(const char*, int);
  const auto next = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "dlopen"));
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  void* const library = next != nullptr ? next(path, kMode) : dlopen(path, kMode);
  const void* const found = library == nullptr ? nullptr : dlsym(library, name);
  *why = found == nullptr ? dlerror() : nullptr;
  return found;
}

}  // namespace loft::os
