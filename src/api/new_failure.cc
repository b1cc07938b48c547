#include "api/new_failure.h"

#include <dlfcn.h>

#include <new>

#include "base/atomic.h"
#include "base/macros.h"
#include "malloc/allocate.h"
#include "os/fault.h"

// References that stay null if nothing defines the function: the C++ library's in a C program, the
// dynamic loader's in a static one. A static link takes the former from libstdc++.a only if
// something else needs them, as every container, string or set_new_handler does. For other programs
// there is -Wl,-u,_ZSt17__throw_bad_allocv.
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose
extern "C" {
[[gnu::weak, gnu::visibility("default")]] std::new_handler linked_get_new_handler() __asm__(
    "_ZSt15get_new_handlerv");
[[gnu::weak, gnu::visibility("default")]] void linked_throw_bad_alloc() __asm__(
    "_ZSt17__throw_bad_allocv");
}

namespace loft {

namespace {

constexpr const char* kRuntimes[] = {"libstdc++.so.6", "libc++.so.1"};

// A function of a C++ library that a plugin has brought. The references above do not see it.
// `more`: RTLD_NODELETE for who keeps its address.
template <class Function>
Function* find_in_runtime(const char* name, int more = 0) {
  if (dlopen == nullptr || dlsym == nullptr || dlclose == nullptr) return nullptr;
  for (const char* library : kRuntimes) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD | more);
    if (handle == nullptr) continue;
    void* found = dlsym(handle, name);
    dlclose(handle);
    if (found != nullptr) return reinterpret_cast<Function*>(found);
  }
  return nullptr;
}

std::new_handler current_handler() {
  auto* get = linked_get_new_handler;
  if (get == nullptr) get = find_in_runtime<std::new_handler()>("_ZSt15get_new_handlerv");
  return get == nullptr ? nullptr : get();
}

[[noreturn]] void throw_bad_alloc(size_t size) {
  auto* raise = linked_throw_bad_alloc;
  if (raise == nullptr) raise = find_in_runtime<void()>("_ZSt17__throw_bad_allocv");
  if (raise != nullptr) raise();
  os::fault(Text() << "operator new of " << uint64_t{size}
                   << " bytes: out of memory, and no C++ library here to throw std::bad_alloc");
}

void* allocate_again(size_t size, size_t alignment, Maker maker) {
  if (alignment != 0) return allocate_aligned(alignment, size, maker);
  return maker == Maker::kNew
             ? allocate<allocate_beyond_table<Maker::kNew>, allocate_from_empty<Maker::kNew>>(size)
             : allocate<allocate_beyond_table<Maker::kNewArray>,
                        allocate_from_empty<Maker::kNewArray>>(size);
}

// `again` allocates. Returns nullptr if no handler is left to call.
template <class Again>
void* call_handlers(Again again) {
  for (;;) {
    const std::new_handler handler = current_handler();
    if (handler == nullptr) return nullptr;
    handler();
    if (void* p = again()) return p;
  }
}

constexpr bool is_aligned(Maker maker) {
  return maker == Maker::kNewAligned || maker == Maker::kNewArrayAligned;
}
constexpr bool is_array(Maker maker) {
  return maker == Maker::kNewArray || maker == Maker::kNewArrayAligned;
}

// The C++ library's own nothrow operator of that form; nullptr without. It stays loaded.
using CatchingNew = void*(size_t, const std::nothrow_t&);
using CatchingNewAligned = void*(size_t, std::align_val_t, const std::nothrow_t&);
template <class New>
New* catching_new(Maker maker) {
  // Relaxed: each thread finds the same one.
  static constinit Atomic<New*> known[2];
  Atomic<New*>& its = known[is_array(maker) ? 1 : 0];
  New* found = its.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(found == nullptr)) {
    const char* const names[] = {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
                                 "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                 "_ZnamSt11align_val_tRKSt9nothrow_t"};
    const unsigned name = (is_aligned(maker) ? 2u : 0u) + (is_array(maker) ? 1u : 0u);
    found = find_in_runtime<New>(names[name], RTLD_NODELETE);
    its.store(found, memory_order_relaxed);
  }
  return found;
}

}  // namespace

LOFT_COLD bool catch_from_new(size_t size, size_t alignment, Maker maker, void** object) {
  if (alignment == 0) {
    auto* const catching = catching_new<CatchingNew>(maker);
    if (catching == nullptr) return false;
    *object = catching(size, std::nothrow_t());
  } else {
    auto* const catching = catching_new<CatchingNewAligned>(maker);
    if (catching == nullptr) return false;
    *object = catching(size, std::align_val_t{alignment}, std::nothrow_t());
  }
  return true;
}

LOFT_COLD void* retry_with(size_t size, size_t alignment, Maker maker, Again again) {
  void* p = call_handlers([=] { return again(size, alignment, maker); });
  if (p == nullptr) throw_bad_alloc(size);
  return p;
}

// A handler may give up by throwing; the nothrow forms then return nullptr. loft cannot catch. The
// C++ library's own nothrow operators can: they call the plain operator new, which is loft's,
// inside try and catch. Without them (a static link), a handler that throws ends the program.
LOFT_COLD void* retry_nothrow_with(size_t size, size_t alignment, Maker maker, Again again) {
  if (current_handler() == nullptr) return nullptr;
  void* object = nullptr;
  if (catch_from_new(size, alignment, maker, &object)) return object;
  return call_handlers([=] { return again(size, alignment, maker); });
}

LOFT_COLD void* new_retry(size_t size, size_t alignment, Maker maker) {
  return retry_with(size, alignment, maker, allocate_again);
}
LOFT_COLD void* new_retry_nothrow(size_t size, size_t alignment, Maker maker) {
  return retry_nothrow_with(size, alignment, maker, allocate_again);
}

}  // namespace loft
