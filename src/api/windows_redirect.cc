// loft.dll in a program as it is: when it is loaded, the allocation functions of all C runtimes in
// the process become loft's, for the modules that are there and for those that are loaded later.
// What a runtime does inside of itself, as strdup does, stays on its own heap, and goes back there
// (api/windows_family.h). Objects that were allocated before do, too.
#include <windows.h>

#include "api/windows_exports.h"
#include "api/windows_family.h"
#include "base/atomic.h"
#include "os/fault.h"

namespace loft::redirect {

namespace {

using family::Runtime;
using modules::Replaced;

constexpr const wchar_t* kRuntimes[] = {L"ucrtbase.dll", L"msvcrt.dll",   L"ucrtbased.dll",
                                        L"msvcr120.dll", L"msvcr110.dll", L"msvcr100.dll",
                                        L"msvcr90.dll"};
constexpr unsigned kRuntimeCount = sizeof(kRuntimes) / sizeof(kRuntimes[0]);

constinit Runtime runtimes[kRuntimeCount]{};

// The functions before one runtime.
template <unsigned kIndex>
struct Before {
  static const Runtime& runtime() { return runtimes[kIndex]; }
  static void* malloc(size_t size) { return family::allocate_or_tell(runtime(), size); }
  static void free(void* p) {
    if (LOFT_UNLIKELY(family::is_in_a_gap(p))) return family::free_slow(runtime(), p);
    const auto slow = [](void* object) { family::free_slow(runtime(), object); };
    deallocate<false>(p, slow, slow);
  }
  static void* calloc(size_t count, size_t size) {
    return family::allocate_zeroed_to_the_end(runtime(), count, size);
  }
  static void* realloc(void* p, size_t size) { return family::resize(runtime(), p, size); }
  static void* recalloc(void* p, size_t count, size_t size) {
    return family::resize_zeroed(runtime(), p, count, size);
  }
  static void* expand(void* p, size_t size) { return family::expand(runtime(), p, size); }
  static size_t msize(void* p) { return family::size_of(runtime(), p); }
  static void* aligned_malloc(size_t size, size_t alignment) {
    return family::allocate_aligned(runtime(), size, alignment, 0);
  }
  static void* aligned_offset_malloc(size_t size, size_t alignment, size_t offset) {
    return family::allocate_aligned(runtime(), size, alignment, offset);
  }
  static void* aligned_realloc(void* p, size_t size, size_t alignment) {
    return family::resize_aligned(runtime(), p, size, alignment, 0);
  }
  static void* aligned_offset_realloc(void* p, size_t size, size_t alignment, size_t offset) {
    return family::resize_aligned(runtime(), p, size, alignment, offset);
  }
  static void* aligned_recalloc(void* p, size_t count, size_t size, size_t alignment) {
    return family::resize_aligned_zeroed(runtime(), p, count, size, alignment, 0);
  }
  static void* aligned_offset_recalloc(void* p, size_t count, size_t size, size_t alignment,
                                       size_t offset) {
    return family::resize_aligned_zeroed(runtime(), p, count, size, alignment, offset);
  }
  static void aligned_free(void* p) { family::free_aligned(runtime(), p); }
  static size_t aligned_msize(void* p, size_t alignment, size_t offset) {
    return family::size_of_aligned(runtime(), p, alignment, offset);
  }
  static int heapwalk(void*) { return family::refuse_to_walk(runtime()); }
};

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

constexpr size_t kMostFunctions = 24;

// The names of one runtime's functions that loft stands before. Those that begin with an underscore
// twice are its own doors to the same.
template <unsigned kIndex>
size_t list(Replaced* to) {
  using To = Before<kIndex>;
  const Replaced all[] = {
      {"malloc", address(To::malloc), nullptr},
      {"free", address(To::free), nullptr},
      {"calloc", address(To::calloc), nullptr},
      {"realloc", address(To::realloc), nullptr},
      {"_recalloc", address(To::recalloc), nullptr},
      {"_expand", address(To::expand), nullptr},
      {"_msize", address(To::msize), nullptr},
      {"_aligned_malloc", address(To::aligned_malloc), nullptr},
      {"_aligned_offset_malloc", address(To::aligned_offset_malloc), nullptr},
      {"_aligned_realloc", address(To::aligned_realloc), nullptr},
      {"_aligned_offset_realloc", address(To::aligned_offset_realloc), nullptr},
      {"_aligned_recalloc", address(To::aligned_recalloc), nullptr},
      {"_aligned_offset_recalloc", address(To::aligned_offset_recalloc), nullptr},
      {"_aligned_free", address(To::aligned_free), nullptr},
      {"_aligned_msize", address(To::aligned_msize), nullptr},
      {"_heapwalk", address(To::heapwalk), nullptr},
      {"_malloc_base", address(To::malloc), nullptr},
      {"_free_base", address(To::free), nullptr},
      {"_calloc_base", address(To::calloc), nullptr},
      {"_realloc_base", address(To::realloc), nullptr},
      {"_msize_base", address(To::msize), nullptr},
      {"_recalloc_base", address(To::recalloc), nullptr},
  };
  constexpr size_t kCount = sizeof(all) / sizeof(all[0]);
  static_assert(kCount <= kMostFunctions);
  for (size_t i = 0; i < kCount; ++i) to[i] = all[i];
  return kCount;
}

constexpr size_t (*kLists[])(Replaced*) = {list<0>, list<1>, list<2>, list<3>,
                                           list<4>, list<5>, list<6>};
static_assert(sizeof(kLists) / sizeof(kLists[0]) == kRuntimeCount);

// A runtime that is loaded. Written under the loader's lock.
struct Known {
  void* module;
  Replaced functions[kMostFunctions];
  size_t count;
};
constinit Known known[kRuntimeCount]{};

void* former_of(const Known& of, const char* name) {
  for (size_t i = 0; i < of.count; ++i) {
    if (__builtin_strcmp(of.functions[i].name, name) == 0) return of.functions[i].former;
  }
  return nullptr;
}

template <class Function>
void set(Function** function, void* to) {
  *function = reinterpret_cast<Function*>(to);
}

// What an older runtime does not have is never asked for: such a function of its own would have
// made the object.
void remember(unsigned index) {
  const Known& of = known[index];
  Runtime& runtime = runtimes[index];
  set(&runtime.free, former_of(of, "free"));
  set(&runtime.realloc, former_of(of, "realloc"));
  set(&runtime.msize, former_of(of, "_msize"));
  set(&runtime.expand, former_of(of, "_expand"));
  set(&runtime.aligned_free, former_of(of, "_aligned_free"));
  set(&runtime.aligned_msize, former_of(of, "_aligned_msize"));
  Replaced error = {"_errno", nullptr, nullptr};
  modules::find_all(of.module, &error, 1);
  set(&runtime.error_number, error.former);
}

bool is_runtime(void* module) {
  for (const Known& of : known) {
    if (of.module == module) return true;
  }
  return false;
}

extern "C" IMAGE_DOS_HEADER __ImageBase;

void redirect_imports(void* module) {
  if (module == &__ImageBase || is_runtime(module)) return;
  for (const Known& of : known) modules::replace_imports(module, of.functions, of.count);
}

void redirect_runtime(unsigned index, void* module) {
  Known& of = known[index];
  if (of.module != nullptr) return;
  of.count = kLists[index](of.functions);
  modules::find_all(module, of.functions, of.count);
  of.module = module;
  remember(index);
  if (runtimes[index].free == nullptr || runtimes[index].error_number == nullptr) {
    of.count = 0;
    return;
  }
  if (!modules::replace_exports(module, of.functions, of.count)) {
    os::report(Text() << "what is loaded later allocates with the C runtime: the system does not "
                         "let its table of exports be changed");
  }
}

// ---- What the loader tells. ----

struct UnicodeString {
  unsigned short bytes;
  unsigned short room;
  wchar_t* text;
};

struct Loaded {
  ULONG flags;
  const UnicodeString* path;
  const UnicodeString* name;
  void* module;
  ULONG size;
};

wchar_t small_letter(wchar_t letter) {
  return letter >= L'A' && letter <= L'Z' ? static_cast<wchar_t>(letter + (L'a' - L'A')) : letter;
}

bool is_name(const UnicodeString& name, const wchar_t* of) {
  const size_t length = name.bytes / sizeof(wchar_t);
  for (size_t i = 0; i < length; ++i, ++of) {
    if (*of == 0 || small_letter(name.text[i]) != *of) return false;
  }
  return *of == 0;
}

void CALLBACK on_module(ULONG reason, const Loaded* loaded, void*) {
  constexpr ULONG kIsLoaded = 1;
  if (reason != kIsLoaded) return;
  for (unsigned i = 0; i < kRuntimeCount; ++i) {
    if (is_name(*loaded->name, kRuntimes[i])) redirect_runtime(i, loaded->module);
  }
  redirect_imports(loaded->module);
}

using Register = LONG(NTAPI*)(ULONG flags, void(CALLBACK* tell)(ULONG, const Loaded*, void*),
                              void* context, void** cookie);

void follow_loader() {
  const HMODULE ntdll = GetModuleHandleA("ntdll.dll");
  const auto ask = reinterpret_cast<Register>(
      reinterpret_cast<void*>(GetProcAddress(ntdll, "LdrRegisterDllNotification")));
  void* cookie = nullptr;
  if (ask == nullptr || ask(0, on_module, nullptr, &cookie) < 0) {
    os::report(Text() << "C runtimes that are loaded later keep their own malloc: the loader does "
                         "not tell of them");
  }
}

// Modules are images that lie in memory: the system lists its pages, for which no lock is taken.
void redirect_all_imports() {
  MEMORY_BASIC_INFORMATION found;
  for (uintptr_t at = 0; VirtualQuery(reinterpret_cast<void*>(at), &found, sizeof(found)) != 0;) {
    const uintptr_t next = reinterpret_cast<uintptr_t>(found.BaseAddress) + found.RegionSize;
    if (next <= at) break;
    const bool begins = found.State == MEM_COMMIT && found.Type == MEM_IMAGE &&
                        found.BaseAddress == found.AllocationBase;
    HMODULE module = nullptr;
    // Not what is mapped as data alone.
    if (begins && GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                         GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                                     static_cast<const char*>(found.AllocationBase), &module)) {
      redirect_imports(module);
    }
    at = next;
  }
}

void begin() {
  // What is handed out must outlive everybody: the library stays.
  HMODULE self = nullptr;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     reinterpret_cast<const char*>(&__ImageBase), &self);
  for (unsigned i = 0; i < kRuntimeCount; ++i) {
    const HMODULE module = GetModuleHandleW(kRuntimes[i]);
    if (module != nullptr) redirect_runtime(i, module);
  }
  redirect_all_imports();
  follow_loader();
}

}  // namespace

}  // namespace loft::redirect

extern "C" BOOL WINAPI DllMain(HINSTANCE, DWORD reason, void*) {
  if (reason == DLL_PROCESS_ATTACH) loft::redirect::begin();
  return TRUE;
}
