#include "stats/objects.h"

#include "base/peek.h"
#include "cache/arrays.h"
#include "cache/guest.h"
#include "cache/medium_cache.h"
#include "cache/percpu.h"
#include "files/output.h"
#include "heap/large.h"
#include "heap/registry.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/os.h"
#include "profile/samples.h"
#include "runtime/lifecycle.h"
#include "slab/medium_runs.h"
#include "space/free_spans.h"
#include "space/span.h"

namespace loft {

size_t Starts::bytes() const { return round_up((end_ - base_) / kAlignment / 8 + 8, 8); }

Starts::~Starts() { files::give_back(words_, bytes()); }

bool Starts::begin(uintptr_t base, uintptr_t end) {
  base_ = base;
  end_ = end;
  words_ = static_cast<uint64_t*>(files::borrow(bytes()));
  return words_ != nullptr;
}

uintptr_t Starts::next(uintptr_t at) const {
  if (!has_place(at)) return 0;
  size_t word = word_of(at);
  uint64_t left = words_[word] & ~(bit_of(at) - 1);
  const size_t words = bytes() / sizeof(uint64_t);
  while (left == 0) {
    if (++word == words) return 0;
    left = words_[word];
  }
  return base_ + (word * 64 + lowest_bit(left)) * kAlignment;
}

size_t Starts::count(uintptr_t from, uintptr_t to) const {
  size_t sum = 0;
  for (size_t word = word_of(from); word != word_of(to); ++word) sum += count_bits(words_[word]);
  return sum;
}

namespace {

// Of a message or a pointer that a running thread may have been writing, anything may be read.
bool is_slab_with(const Slab* slab, uint32_t index) {
  const auto* base = reinterpret_cast<const void*>(peek(slab->base));
  if (!pagemap.contains(base)) return false;
  const Entry entry = pagemap.of(base);
  return entry.is_slab() && entry.index() == index;
}

// All that lies in slabs and was freed, without being free in its slab's bitmap.
class Cached {
 public:
  explicit Cached(Starts& live, size_t most) : live_(live), most_(most) {}

  void remove_all() {
    for (const ThreadCache* t = newest_cache(); t != nullptr; t = t->older) remove_of(t);
    for (unsigned id = 1; id <= registry::count(); ++id) {
      registry::at(id)->inbox().for_each(
          [](const Message*, uint64_t link) {
            return tag_in(link) != 0 && pagemap.contains(next_in(link));
          },
          [this](const Message* message, Tag tag) { remove(message, tag); });
    }
  }

 private:
  void remove_of(const ThreadCache* thread) {
    for (SizeClass c = 0; c < kSizeClasses; ++c) remove_bins(thread, c);
    guest::visit_held(
        thread,
        [](void* live, const void* p) {
          static_cast<Starts*>(live)->remove(reinterpret_cast<uintptr_t>(p));
        },
        &live_);
    for (unsigned open = peek(thread->open_batches); open != 0; open &= open - 1) {
      const size_t slot = lowest_bit(open);
      const Batch& batch = thread->batches()[slot];
      const size_t size = class_size(peek(thread->batch_classes[slot]) % kSizeClasses);
      for (unsigned word = 0; word < kMaxWords; ++word) {
        remove(peek(batch.base), size, word, peek(batch.words[word]));
      }
    }
    size_t messages = 0;
    thread->outbox.for_each([&](const Message* message, Tag tag) {
      remove(message, tag);
      return ++messages < most_;
    });
    const void* recent = nullptr;
    medium_cache::held(thread, &recent);
    live_.remove(reinterpret_cast<uintptr_t>(recent));
    if (thread->processor != nullptr) {
      const percpu::Foreign foreign = percpu::foreign_of(thread->processor);
      remove(foreign.first, foreign.end);
    }
  }

  void remove_bins(const ThreadCache* thread, SizeClass c) {
    const BinState& state = thread->states[c];
    void** const slots = peek(state.slots);
    void** const top = percpu::top_of(thread, c);
    if (slots != nullptr && top >= slots && top < slots + kMostSlots) remove(slots + 1, top + 1);
    void** full = peek(state.depot);
    for (unsigned stashed = peek(state.stashed); stashed != 0 && full != nullptr; --stashed) {
      remove(full + 1, full + kMostSlots);
      full = static_cast<void**>(peek(full[0]));
    }
  }

  void remove(void* const* from, void* const* end) {
    for (; from < end; ++from) live_.remove(reinterpret_cast<uintptr_t>(peek(*from)));
  }

  void remove(uintptr_t base, size_t size, unsigned word, uint64_t objects) {
    for (; objects != 0; objects &= objects - 1) {
      live_.remove(base + (size_t{word} * 64 + lowest_bit(objects)) * size);
    }
  }

  void remove(const Message* message, Tag tag) {
    const Entry entry = pagemap.of(message);
    if (!entry.is_slab()) return;  // a medium object, which its word says
    const Slab* const slab = slab::at(entry);
    auto* const at = const_cast<Message*>(message);
    const uintptr_t end = slab->base + (size_t{slab->shape().granules} << kGranuleLog);
    if (end - reinterpret_cast<uintptr_t>(at) < messages::head()) return;
    const size_t room = end - reinterpret_cast<uintptr_t>(at) - messages::head();
    if (tag == kAloneTag) live_.remove(reinterpret_cast<uintptr_t>(at));
    if (!has_records(tag)) {
      const unsigned words = word_count_in(tag);
      if (words * sizeof(uint64_t) > room) return;
      for (unsigned i = 0; i < words; ++i) {
        remove(slab->base, slab->shape().size, first_word_in(tag) + i, peek(at->words()[i]));
      }
      return;
    }
    const unsigned count = record_count_in(tag);
    if (count * sizeof(Record) > room) return;
    for (unsigned i = 0; i < count; ++i) {
      const uint32_t index = peek(at->records()[i].slab);
      if (!metadata::contains(index)) continue;
      const Slab* const other = metadata::at_index<Slab>(index);
      if (!is_slab_with(other, index)) continue;
      remove(other->base, other->shape().size, peek(at->records()[i].word),
             peek(at->records()[i].freed));
    }
  }

  Starts& live_;
  const size_t most_;  // messages of one thread: more than that go in a circle
};

// Adds what lies in [base, end) and is not free where it was made.
class Made {
 public:
  Made(Starts& live, const UserHeap* only) : live_(live), only_(only) {}

  void add_all(uintptr_t base, uintptr_t end) {
    while (base < end) {
      const size_t granules = add_at(base, pagemap.of(reinterpret_cast<const void*>(base)));
      base += most<size_t>(granules, 1) << kGranuleLog;
    }
  }

  void add_extent(const Extent* extent) {
    const auto add = [](void* self, uintptr_t at) { static_cast<Made*>(self)->live_.add(at); };
    Blocks::for_each(extent, add, this);
  }

 private:
  // Returns the granules of what begins there. 0: nothing does.
  size_t add_at(uintptr_t at, Entry entry) {
    if (entry.bin() == kFreeSpan) {
      const Span* const span = metadata::at_index<Span>(entry.index());
      return span->base == at ? span->granules : 0;
    }
    if (entry.bin() == kGuest) {
      const Extent* const extent = Shard::extent_at(entry);
      if (extent->base != at) return 0;
      if (only_ == nullptr || UserHeap::of(extent) == only_) add_extent(extent);
      return extent->units >> (kGranuleLog - kUnitLog);
    }
    if (entry.bin() == kLarge) {
      const Large* const object = large::at(entry);
      if (peek(object->base) != at) return 0;
      if (only_ == nullptr && !peek(object->kept)) live_.add(at + peek(object->shift));
      return peek(object->granules);
    }
    if (entry.bin() == kMedium) {
      const MediumRun* const run = medium::run_at(entry);
      if (run->base != at) return 0;
      if (only_ == nullptr) add_run(run);
      return run->granules();
    }
    if (!entry.is_slab()) return 0;
    const Slab* const slab = slab::at(entry);
    if (slab->base != at) return 0;
    if (only_ == nullptr) add_slab(slab);
    return slab->shape().granules;
  }

  void add_slab(const Slab* slab) {
    const size_t size = slab->shape().size;
    for (unsigned word = 0; word < slab->shape().words; ++word) {
      for (uint64_t taken = ~slab->bits[word] & slab->places_in(word); taken != 0;
           taken &= taken - 1) {
        live_.add(slab->base + (size_t{word} * 64 + lowest_bit(taken)) * size);
      }
    }
  }

  void add_run(const MediumRun* run) {
    for (unsigned page = 0; page < run->pages; ++page) {
      if (run->words[page].in_use()) live_.add(run->address_of(page));
    }
  }

  Starts& live_;
  const UserHeap* const only_;
};

}  // namespace

bool note_objects(Starts& live, const UserHeap* only, With with) {
  const uintptr_t base = pagemap.base;
  const uintptr_t end = base + span::used_bytes();
  if (!live.begin(base, end)) return false;
  Made(live, only).add_all(base, end);
  // Objects of heaps of the program's own are never cached.
  if (only == nullptr) Cached(live, (end - base) / kAlignment).remove_all();
  if (only == nullptr && with == With::kObjects) {
    const auto remove = [](void* context, void* kept) {
      static_cast<Starts*>(context)->remove(reinterpret_cast<uintptr_t>(kept));
    };
    profile::visit_kept(remove, &live);
  }
  return true;
}

namespace {

bool note_region(Starts& live, const Extent* region) {
  if (!live.begin(region->base, region->end())) return false;
  Made(live, nullptr).add_extent(region);
  return true;
}

size_t bytes_in(const Extent* extent, const void* start) {
  if (!extent->covers(start)) return 0;
  const ObjectAt object = UserHeap::object_at(extent, start);
  const bool is_free = object.block != nullptr && Blocks::is_free(object);
  const bool is_one = object.start == reinterpret_cast<uintptr_t>(start) && !is_free;
  return is_one ? object.bytes : 0;
}

// The usable bytes of the object that starts there; 0 if it was freed meanwhile. Without locks:
// what the entry leads to may be gone.
size_t bytes_at(void* start, const Extent* region) {
  const auto at = reinterpret_cast<uintptr_t>(start);
  const Entry entry = region == nullptr ? pagemap.of(start) : Entry{};
  if (entry.is_slab()) {
    return policy().size_in(start, class_size(class_of_bin(entry.bin())));
  }
  if (entry.bin() == kMedium) {
    const MediumWord::Object object = medium::run_at(entry)->peek_at(start);
    if (object.kept || object.pages == 0) return 0;
    return policy().size_in(start, medium::usable_bytes(entry, object));
  }
  if (entry.bin() == kLarge) {
    const Large* const object = large::at(entry);
    if (peek(object->base) + peek(object->shift) != at || peek(object->kept)) return 0;
    return policy().size_in(start, peek(object->bytes) - peek(object->shift));
  }
  if (region != nullptr) return bytes_in(region, start);
  return entry.bin() == kGuest ? bytes_in(Shard::extent_at(entry), start) : 0;
}

}  // namespace

size_t visit_objects(const UserHeap* only, VisitObject visit, void* context) {
  const Extent* const region = only == nullptr ? nullptr : only->region();
  if (region == nullptr && span::used_bytes() == 0) return 0;
  Starts live;
  lifecycle::lock_all();
  const bool noted =
      region != nullptr ? note_region(live, region) : note_objects(live, only, With::kObjects);
  lifecycle::unlock_all();
  if (!noted) {
    os::out_of_memory();
    return 0;
  }
  size_t visited = 0;
  const uintptr_t first = region != nullptr ? region->base : pagemap.base;
  for (uintptr_t at = live.next(first); at != 0; at = live.next(at + kAlignment)) {
    void* const start = reinterpret_cast<void*>(at);
    const size_t bytes = bytes_at(start, region);
    if (bytes == 0) continue;  // freed meanwhile, by the visitor or beside it
    ++visited;
    if (visit(context, start, bytes) != 0) break;
  }
  return visited;
}

}  // namespace loft
