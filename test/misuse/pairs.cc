// Objects that are freed by another function than the one that belongs to theirs, or with a size
// that is not theirs.
//
// Unseen: the heap is as sound after it as before, but the program is told nothing. Destructors
// have run for one object in place of many, or for many in place of one, before the allocator is
// called.
#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "cases.h"

namespace {

constexpr auto kWide = std::align_val_t{256};

// What belongs to a type with a destructor, without the type.
void* new_one(size_t size) { return operator new(size); }
void* new_many(size_t size) { return operator new[](size); }
void* new_wide(size_t size) { return operator new(size, kWide); }

__attribute__((noreturn)) void finish_seen(size_t size) {
  if (overlaps(size, nullptr) || overlaps(size * 4, nullptr)) finish(kThrough);
  settle(size);
  finish(kUnseen);
}

template <void* (*kTake)(size_t), void (*kGive)(void*, size_t)>
void run(const Setting* s) {
  Herd herd = {.size = s->size, .count = 16, .at = {}};
  for (size_t i = 0; i < herd.count; ++i) {
    herd.at[i] = static_cast<char*>(kTake(s->size));
    fill(herd.at[i], kSecret, s->size);
  }
  about_to();
  for (size_t i = 0; i < herd.count; ++i) kGive(herd.at[i], s->size);
  finish_seen(s->size);
}

void by_free(void* p, size_t) { give(p); }
void by_delete(void* p, size_t) { operator delete(p); }
void by_delete_many(void* p, size_t) { operator delete[](p); }
void by_delete_wide(void* p, size_t) { operator delete(p, kWide); }
void smaller(void* p, size_t size) { operator delete(p, size / 4); }
void larger(void* p, size_t size) { operator delete(p, size * 4); }
void smaller_many(void* p, size_t size) { operator delete[](p, size / 4); }
void larger_many(void* p, size_t size) { operator delete[](p, size * 4); }

// Those of C23 are not in every libc.
template <typename Function>
Function* named(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) finish(kAbsent);
  return found;
}

template <size_t kTimes, size_t kParts>
void free_sized(const Setting* s) {
  auto* const call = named<void(void*, size_t)>("free_sized");
  void* const object = take(s->size);
  about_to();
  call(object, s->size * kTimes / kParts);
  finish_seen(s->size);
}

void free_aligned_sized(const Setting* s) {
  auto* const call = named<void(void*, size_t, size_t)>("free_aligned_sized");
  void* const object = aligned_alloc(64, s->size * 4);
  if (object == nullptr) finish(kBroken);
  about_to();
  call(object, 64, s->size);
  finish_seen(s->size);
}

}  // namespace

#define SECTION "Frees that do not belong to the allocation"

extern const Family kPairs[] = {
    {SECTION, "new-delete-array", "`new`, `delete[]`", run<new_one, by_delete_many>, kTiny, 0,
     nullptr},
    {SECTION, "new-array-delete", "`new[]`, `delete`", run<new_many, by_delete>, kTiny, 0, nullptr},
    {SECTION, "malloc-delete", "`malloc`, `delete`", run<take, by_delete>, kTiny, 0, nullptr},
    {SECTION, "malloc-delete-array", "`malloc`, `delete[]`", run<take, by_delete_many>, kTiny, 0,
     nullptr},
    {SECTION, "new-free", "`new`, `free`", run<new_one, by_free>, kTiny, 0, nullptr},
    {SECTION, "new-array-free", "`new[]`, `free`", run<new_many, by_free>, kTiny, 0, nullptr},
    {SECTION, "new-delete-aligned", "`new`, `delete` of an aligned object",
     run<new_one, by_delete_wide>, kTiny, 0, nullptr},
    {SECTION, "new-aligned-delete", "`new` of an aligned object, plain `delete`",
     run<new_wide, by_delete>, kTiny, 0, nullptr},
    {SECTION, "delete-smaller", "`delete` with a size that is too small", run<new_one, smaller>,
     kMost, 0, nullptr},
    {SECTION, "delete-larger", "`delete` with a size that is too large", run<new_one, larger>,
     kMost, 0, nullptr},
    {SECTION, "delete-array-smaller", "`delete[]` with a size that is too small",
     run<new_many, smaller_many>, kTiny, 0, nullptr},
    {SECTION, "delete-array-larger", "`delete[]` with a size that is too large",
     run<new_many, larger_many>, kTiny, 0, nullptr},
    {SECTION, "free-sized-smaller", "`free_sized` with a size that is too small", free_sized<1, 4>,
     kTiny | kLarge, 0, nullptr},
    {SECTION, "free-sized-larger", "`free_sized` with a size that is too large", free_sized<4, 1>,
     kTiny | kLarge, 0, nullptr},
    {SECTION, "free-aligned-sized", "`free_aligned_sized` with another size", free_aligned_sized,
     kTiny, 0, nullptr},
    {},
};
