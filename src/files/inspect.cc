#include "files/inspect.h"

#include <string.h>

#include <new>
#include <string_view>

#include "base/atomic.h"
#include "base/keep.h"
#include "base/macros.h"
#include "files/mappings.h"
#include "files/output.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/symbols.h"

// Of libloft-inspect.a, in a program that is linked with it.
extern "C" {
#if !defined(LOFT_INSPECT)
[[gnu::weak]]
#endif
extern LOFT_HIDDEN const loft::inspect::Table loft_inspect;
}

namespace loft::inspect {

namespace {

constexpr char kName[] = "libloft-inspect.so";

// Release and acquire pair, both: who finds the table finds what the loader has written; and in
// `in_use`, that stacks have begun.
constinit Atomic<const Table*> opened{nullptr};
constinit Atomic<const Table*> in_use{nullptr};

// Who may link to a program's file has it lie wherever he likes. The loader looks after the folders
// that libloft.so may come from.
bool may_lie_anywhere() { return os::has_more_rights() && !os::is_own_library(); }

// Beside the file that this code is mapped from, by its path without symbolic links.
struct Beside {
  files::Mappings mappings;
  char path[files::kLongestPath];

  // False if it is not known.
  bool find() {
    const auto here = reinterpret_cast<uintptr_t>(&loft::inspect::open);
    files::Mapping mapping;
    while (mappings.next(&mapping)) {
      if (here - mapping.begin >= mapping.end - mapping.begin || mapping.name[0] != '/') continue;
      const size_t folder = std::string_view(mapping.name).rfind('/') + 1;
      if (folder + sizeof(kName) > sizeof(path)) return false;
      memcpy(path, mapping.name, folder);
      memcpy(path + folder, kName, sizeof(kName));
      return true;
    }
    return false;
  }
};

const Table* open_beside(const char** why) {
  *why = "libloft-inspect.so may be its user's, who has fewer rights than the program";
  if (may_lie_anywhere()) return nullptr;
  void* const memory = files::borrow(sizeof(Beside));
  *why = "no memory to look for libloft-inspect.so";
  if (memory == nullptr) return nullptr;
  auto& beside = *new (memory) Beside;
  const void* found = nullptr;
  *why = "the system does not say where libloft-inspect.so would lie";
  if (beside.find()) found = os::open_for_good(beside.path, "loft_inspect", why);
  beside.~Beside();
  files::give_back(memory, sizeof(Beside));
  return static_cast<const Table*>(found);
}

const char* begin(const Table* table) {
  const auto* const own = os::is_own_library() ? reinterpret_cast<const void*>(&open) : nullptr;
  return table->begin(own);
}

}  // namespace

// Two threads may open it at once, and find the same.
const Table* library(const char** why) {
  const Table* table = opened.load(memory_order_acquire);
  if (table != nullptr) return table;
  const KeepErrno keep;
  table = &loft_inspect != nullptr ? &loft_inspect : open_beside(why);
  if (table == nullptr) return nullptr;
  *why = "libloft-inspect.so is another version's";
  if (table->version != kTableVersion) return nullptr;
  opened.store(table, memory_order_release);
  return table;
}

const Table* opened_library() { return opened.load(memory_order_acquire); }

void open() {
  static constinit Atomic<uint32_t> begun{0};  // relaxed: it only says who is first
  if (begun.load(memory_order_relaxed) != 0 || begun.exchange(1, memory_order_relaxed) != 0) return;
  const KeepErrno keep;
  const char* why = nullptr;
  const Table* const table = library(&why);
  if (table == nullptr) {
    return os::report(Text() << "there are no stacks and no profiles: " << why
                             << "; install libloft-inspect.so beside the file that loft is in");
  }
  why = begin(table);
  if (why != nullptr) return os::report(Text() << "there are no stacks: " << why);
  in_use.store(table, memory_order_release);
}

size_t capture(uintptr_t* frames, size_t most) {
  const Table* const table = in_use.load(memory_order_acquire);
  return table == nullptr ? 0 : table->capture(frames, most);
}

bool name_code(uintptr_t pc, CodeName* name) {
  const Table* const table = in_use.load(memory_order_acquire);
  return table != nullptr && table->name_code(pc, name);
}

}  // namespace loft::inspect
