// Every operator new and delete. All replace the C++ library's, so that each form of delete accepts
// objects from each form of new. new_failure.h has the behaviour without memory.
//
// A program may have some forms itself, or malloc and free. The standard says which form calls
// which by default ([new.delete]), and the C++ library's basic forms call malloc and free. Programs
// rely on it: what their own operator new returns comes to a sized delete, which is loft's. So
// loft's forms have a fast path only where each function that one of them derives from is loft's,
// too. Elsewhere they call these functions by their names, as the C++ library's forms do. Which is
// the case is found out at the first call: all bounds of the fast paths are 0 until then
// (space/pagemap.h).
//
// Weak: in a program that libloft.a is linked into, forms of the program's own take their place.
#include <malloc.h>
#include <stdlib.h>

#include <new>

#include "api/new_failure.h"
#include "api/own_names.h"
#include "base/bits.h"
#include "base/macros.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/symbols.h"
#include "space/span.h"

using std::align_val_t;
using std::nothrow_t;

namespace {

using loft::Maker;

using New = void*(size_t);
using NewAligned = void*(size_t, align_val_t);
using Delete = void(void*) noexcept;
using DeleteAligned = void(void*, align_val_t) noexcept;

// loft's own basic forms, whoever has their names.
#define LOFT_OWN(symbol) __attribute__((visibility("hidden"), alias(symbol)))
#define LOFT_OWN_NEW(symbol) LOFT_OWN(symbol) __attribute__((malloc, alloc_size(1)))
extern "C" {
LOFT_OWN_NEW("_Znwm") New loft_own_new;
LOFT_OWN_NEW("_Znam") New loft_own_new_array;
LOFT_OWN_NEW("_ZnwmSt11align_val_t") NewAligned loft_own_new_aligned;
LOFT_OWN_NEW("_ZnamSt11align_val_t") NewAligned loft_own_new_array_aligned;
LOFT_OWN("_ZdlPv") Delete loft_own_delete;
LOFT_OWN("_ZdaPv") Delete loft_own_delete_array;
LOFT_OWN("_ZdlPvSt11align_val_t") DeleteAligned loft_own_delete_aligned;
LOFT_OWN("_ZdaPvSt11align_val_t") DeleteAligned loft_own_delete_array_aligned;
}
#undef LOFT_OWN_NEW
#undef LOFT_OWN

// Whether all functions are loft's from which operators derive.
LOFT_COLD bool find_out() {
  using loft::is_anothers;
  const bool theirs =
      is_anothers<void*(size_t)>("malloc", malloc, loft_own_malloc) ||
      is_anothers<void(void*)>("free", free, loft_own_free) ||
      is_anothers<void*(size_t, size_t)>("aligned_alloc", aligned_alloc, loft_own_aligned_alloc) ||
      is_anothers<New>("_Znwm", operator new, loft_own_new) ||
      is_anothers<New>("_Znam", operator new[], loft_own_new_array) ||
      is_anothers<NewAligned>("_ZnwmSt11align_val_t", operator new, loft_own_new_aligned) ||
      is_anothers<NewAligned>("_ZnamSt11align_val_t", operator new[], loft_own_new_array_aligned) ||
      is_anothers<Delete>("_ZdlPv", operator delete, loft_own_delete) ||
      is_anothers<Delete>("_ZdaPv", operator delete[], loft_own_delete_array) ||
      is_anothers<DeleteAligned>("_ZdlPvSt11align_val_t", operator delete,
                                 loft_own_delete_aligned) ||
      is_anothers<DeleteAligned>("_ZdaPvSt11align_val_t", operator delete[],
                                 loft_own_delete_array_aligned);
  if (!theirs) loft::span::serve_operators();
  return !theirs;
}

LOFT_ALWAYS_INLINE bool are_ours() { return loft::once<find_out>(); }

// ---- What a form does where they are not loft's ----

// As the C++ library does: a size is a multiple of the alignment.
void* malloc_for(size_t size, size_t alignment, Maker) {
  size = loft::most<size_t>(size, 1);
  if (alignment == 0) return malloc(size);
  const size_t whole = loft::round_up(size, alignment);
  return whole < size ? loft::os::out_of_memory() : aligned_alloc(alignment, whole);
}

// For each form of new: its own, or what it derives from.
using Otherwise = void* (*)(size_t size, size_t alignment, Maker maker);

void* new_by_malloc(size_t size, size_t alignment, Maker maker) {
  void* const p = malloc_for(size, alignment, maker);
  return LOFT_LIKELY(p != nullptr) ? p : loft::retry_with(size, alignment, maker, malloc_for);
}

void* array_by_new(size_t size, size_t alignment, Maker) {
  return alignment == 0 ? operator new(size) : operator new(size, align_val_t{alignment});
}

// Without a C++ library that is loaded, as in a static program, what the form throws passes
// through.
void* nothrow_by_new(size_t size, size_t alignment, Maker maker) {
  void* object = nullptr;
  if (loft::catch_from_new(size, alignment, maker, &object)) return object;
  const align_val_t aligned{alignment};
  if (maker == Maker::kNew) return operator new(size);
  if (maker == Maker::kNewArray) return operator new[](size);
  return maker == Maker::kNewAligned ? operator new(size, aligned) : operator new[](size, aligned);
}

// Each form of delete calls one of these; the basic ones call free.
enum class DeleteCalls : uint8_t { kFree, kDelete, kDeleteArray };

template <DeleteCalls kCalls, class... Alignment>
LOFT_COLD void delete_otherwise(void* p, Alignment... alignment) {
  if constexpr (kCalls == DeleteCalls::kFree) {
    free(p);
  } else if constexpr (kCalls == DeleteCalls::kDelete) {
    operator delete(p, alignment...);
  } else {
    operator delete[](p, alignment...);
  }
}

// ---- The forms ----

using Retry = void* (*)(size_t size, size_t alignment, Maker maker);

// A slow path of malloc that calls the new_handler before it returns nullptr.
template <loft::AllocateSlow kSlow, Maker kMaker, Retry kRetry>
LOFT_NOINLINE void* slow_then_retry(size_t size) {
  void* p = kSlow(size);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, 0, kMaker);
}

// For a size of the table: at a first call, whose bounds are malloc's; or these are not ours.
template <Maker kMaker, Retry kRetry, Otherwise kOtherwise>
LOFT_COLD void* make_by_name(size_t size) {
  if (!are_ours()) return kOtherwise(size, 0, kMaker);
  void* p =
      loft::allocate<loft::allocate_beyond_table<kMaker>, loft::allocate_from_empty<kMaker>>(size);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, 0, kMaker);
}

template <Maker kMaker, Retry kRetry, Otherwise kOtherwise>
LOFT_NOINLINE void* beyond_table(size_t size) {
  if (LOFT_UNLIKELY(size <= loft::kTableMax || !are_ours())) {
    return make_by_name<kMaker, kRetry, kOtherwise>(size);
  }
  void* p = loft::allocate_beyond_table<kMaker>(size);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, 0, kMaker);
}

template <Maker kMaker, Retry kRetry, Otherwise kOtherwise>
LOFT_ALWAYS_INLINE void* make(size_t size) {
  return loft::allocate<beyond_table<kMaker, kRetry, kOtherwise>,
                        slow_then_retry<loft::allocate_from_empty<kMaker>, kMaker, kRetry>, true>(
      size);
}

template <Maker kMaker, Retry kRetry, Otherwise kOtherwise>
LOFT_ALWAYS_INLINE void* make(size_t size, align_val_t align) {
  const auto alignment = static_cast<size_t>(align);
  if (LOFT_UNLIKELY(!are_ours())) return kOtherwise(size, alignment, kMaker);
  void* p = loft::allocate_aligned(alignment, size, kMaker);
  return LOFT_LIKELY(p != nullptr) ? p : kRetry(size, alignment, kMaker);
}

// Each call's way in the hardened modes: nothing is carried here but what the caller has said.
template <Maker kMaker, DeleteCalls kCalls, class... Alignment>
LOFT_NOINLINE void delete_beyond(void* p, Alignment... alignment) {
  if (LOFT_LIKELY(are_ours())) return loft::policy().free_as(p, {0, false, true, kMaker, 0});
  delete_otherwise<kCalls>(p, alignment...);
}
template <Maker kMaker, DeleteCalls kCalls, class... Alignment>
LOFT_NOINLINE void delete_sized_beyond(void* p, size_t size, Alignment... alignment) {
  if (LOFT_LIKELY(are_ours())) {
    return loft::policy().free_as(p, {size, true, true, kMaker, 0});
  }
  delete_otherwise<kCalls>(p, alignment...);
}

template <Maker kMaker, DeleteCalls kCalls, class... Alignment>
LOFT_ALWAYS_INLINE void destroy(void* p, Alignment... alignment) {
  loft::deallocate_as(kMaker, p, [=](void* q) { delete_beyond<kMaker, kCalls>(q, alignment...); });
}
template <Maker kMaker, DeleteCalls kCalls, class... Alignment>
LOFT_ALWAYS_INLINE void destroy_sized(void* p, size_t size, Alignment... alignment) {
  loft::deallocate_sized(kMaker, p, size, [=](void* q) {
    delete_sized_beyond<kMaker, kCalls>(q, size, alignment...);
  });
}

}  // namespace

#define LOFT_FORM LOFT_REPLACEABLE

LOFT_FORM void* operator new(size_t n) {
  return make<Maker::kNew, loft::new_retry, new_by_malloc>(n);
}
LOFT_FORM void* operator new[](size_t n) {
  return make<Maker::kNewArray, loft::new_retry, array_by_new>(n);
}
LOFT_FORM void* operator new(size_t n, align_val_t a) {
  return make<Maker::kNewAligned, loft::new_retry, new_by_malloc>(n, a);
}
LOFT_FORM void* operator new[](size_t n, align_val_t a) {
  return make<Maker::kNewArrayAligned, loft::new_retry, array_by_new>(n, a);
}

LOFT_FORM void* operator new(size_t n, const nothrow_t&) noexcept {
  return make<Maker::kNew, loft::new_retry_nothrow, nothrow_by_new>(n);
}
LOFT_FORM void* operator new[](size_t n, const nothrow_t&) noexcept {
  return make<Maker::kNewArray, loft::new_retry_nothrow, nothrow_by_new>(n);
}
LOFT_FORM void* operator new(size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make<Maker::kNewAligned, loft::new_retry_nothrow, nothrow_by_new>(n, a);
}
LOFT_FORM void* operator new[](size_t n, align_val_t a, const nothrow_t&) noexcept {
  return make<Maker::kNewArrayAligned, loft::new_retry_nothrow, nothrow_by_new>(n, a);
}

LOFT_FORM void operator delete(void* p) noexcept { destroy<Maker::kNew, DeleteCalls::kFree>(p); }
LOFT_FORM void operator delete[](void* p) noexcept {
  destroy<Maker::kNewArray, DeleteCalls::kDelete>(p);
}
LOFT_FORM void operator delete(void* p, const nothrow_t&) noexcept {
  destroy<Maker::kNew, DeleteCalls::kDelete>(p);
}
LOFT_FORM void operator delete[](void* p, const nothrow_t&) noexcept {
  destroy<Maker::kNewArray, DeleteCalls::kDeleteArray>(p);
}
LOFT_FORM void operator delete(void* p, align_val_t a) noexcept {
  destroy<Maker::kNewAligned, DeleteCalls::kFree>(p, a);
}
LOFT_FORM void operator delete[](void* p, align_val_t a) noexcept {
  destroy<Maker::kNewArrayAligned, DeleteCalls::kDelete>(p, a);
}
LOFT_FORM void operator delete(void* p, align_val_t a, const nothrow_t&) noexcept {
  destroy<Maker::kNewAligned, DeleteCalls::kDelete>(p, a);
}
LOFT_FORM void operator delete[](void* p, align_val_t a, const nothrow_t&) noexcept {
  destroy<Maker::kNewArrayAligned, DeleteCalls::kDeleteArray>(p, a);
}

LOFT_FORM void operator delete(void* p, size_t n) noexcept {
  destroy_sized<Maker::kNew, DeleteCalls::kDelete>(p, n);
}
LOFT_FORM void operator delete[](void* p, size_t n) noexcept {
  destroy_sized<Maker::kNewArray, DeleteCalls::kDeleteArray>(p, n);
}
LOFT_FORM void operator delete(void* p, size_t n, align_val_t a) noexcept {
  destroy_sized<Maker::kNewAligned, DeleteCalls::kDelete>(p, n, a);
}
LOFT_FORM void operator delete[](void* p, size_t n, align_val_t a) noexcept {
  destroy_sized<Maker::kNewArrayAligned, DeleteCalls::kDeleteArray>(p, n, a);
}
#undef LOFT_FORM
