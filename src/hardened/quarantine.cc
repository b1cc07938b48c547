#include "hardened/quarantine.h"

#include <new>

#include "cache/batch_cache.h"
#include "cache/medium_cache.h"
#include "hardened/secrets.h"
#include "heap/heap.h"
#include "os/lock.h"
#include "slab/medium_runs.h"
#include "space/metadata.h"
#include "space/pagemap.h"

namespace loft::hardened {

static_assert(sizeof(Quarantine) <= kMetadataMaxBlock);

Quarantine* make_quarantine(ThreadCache* thread) {
  void* const memory = metadata::allocate_apart(sizeof(Quarantine));
  if (memory == nullptr) return nullptr;
  auto* const quarantine = new (memory) Quarantine{};
  quarantine->random = seed();
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    Quarantine::Class& of = quarantine->of[c];
    of.bytes = static_cast<uint32_t>(class_size(c));
    of.length = quarantine_length(c);
    of.lots = quarantine->slots[c];
    of.room = static_cast<uint32_t>(kGranule - class_size(c));
    of.step = key_step(class_size(c));
  }
  thread->has_guests = true;
  compiler_fence();  // a signal handler that frees finds it made
  return thread->quarantine = quarantine;
}

void renew_random(ThreadCache* thread) {
  Quarantine* const quarantine = thread->quarantine;
  if (quarantine != nullptr) quarantine->random = seed();
}

namespace {

// As what a cache keeps, objects in runs are marked for whoever counts them or visits all.
void hold(Quarantine* quarantine, const void* p) {
  MediumRun* const run = medium::run_at(pagemap.of(p));
  quarantine->medium_bytes.add(run->bytes_of(p));
  run->word_at(p).keep();
}

void let_go(Quarantine* quarantine, const void* p) {
  MediumRun* const run = medium::run_at(pagemap.of(p));
  run->word_at(p).let_go();
  quarantine->medium_bytes.add(-run->bytes_of(p));
}

}  // namespace

void* exchange_medium(Quarantine* quarantine, void* p) {
  void*& oldest = quarantine->mediums[quarantine->next_medium++ % Quarantine::kMediums];
  void* const out = oldest;
  hold(quarantine, p);
  oldest = p;
  if (out != nullptr) let_go(quarantine, out);
  return out;
}

namespace {

// Takes one object of the class out; nullptr if none is left.
void* take_out(Quarantine* quarantine, SizeClass c) {
  for (unsigned i = 0; i < quarantine->of[c].length; ++i) {
    for (void** slot : {&quarantine->slots[c][Quarantine::kMost + i], &quarantine->slots[c][i]}) {
      void* const out = *slot;
      if (out == nullptr) continue;
      *slot = nullptr;
      return out;
    }
  }
  return nullptr;
}

void give_back(ThreadCache* thread, SizeClass c, void* p) {
  if (thread->heap != nullptr) {
    const os::Guard guard(thread->heap->lock());
    if (thread->heap->put_back(c, &p, &p + 1) == &p + 1) return;
  }
  batch_cache::add(thread, p, pagemap.of(p));
}

}  // namespace

void empty(ThreadCache* thread) {
  Quarantine* const quarantine = thread->quarantine;
  if (LOFT_LIKELY(quarantine == nullptr)) return;
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    if (quarantine->held[c].get() == 0) continue;
    while (void* const p = take_out(quarantine, c)) give_back(thread, c, p);
    quarantine->held[c].add(-quarantine->held[c].get());
  }
  for (void*& medium : quarantine->mediums) {
    void* const p = medium;
    medium = nullptr;
    if (p == nullptr) continue;
    let_go(quarantine, p);
    medium_cache::keep(thread, p, pagemap.of(p));
  }
}

}  // namespace loft::hardened
