#include "slab/slab.h"

#include <new>

#include "slab/apart.h"
#include "space/span.h"

namespace loft {

namespace {

size_t metadata_bytes(const Geometry& shape, uint8_t sealed) {
  const size_t behind = LOFT_UNLIKELY(sealed == kSealedBehind) ? sizeof(Seals) : 0;
  return offsetof(Slab, bits) + shape.words * sizeof(uint64_t) + behind;
}

size_t uses_bytes(const Geometry& shape) { return shape.objects * sizeof(uint16_t); }

// No value comes again within the life of a process. Relaxed: only that they differ counts.
constinit Atomic<uint64_t> salts{0};

void make_seals(Seals* at) {
  new (at) Seals{salts.fetch_add(1, memory_order_relaxed) + 1, nullptr};
}

constexpr uint64_t low_bits(unsigned count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// The places for objects that a refill hands out, the last of them first: the object with the
// lowest address comes out of a bin first.
struct Places {
  void** lowest;
  size_t more;  // to be filled

  void fill(uintptr_t object) { lowest[--more] = reinterpret_cast<void*>(object); }
  // Of `run` objects, at least one, two with each store. If they are even in number, the first one
  // is stored twice.
  void fill_run(uintptr_t object, size_t step, size_t run) {
    using TwoPlaces = uint64_t __attribute__((vector_size(16)));
    lowest[more - 1] = reinterpret_cast<void*>(object);
    more -= run;
    const size_t odd = run % 2;
    object += step & -odd;
    TwoPlaces pair = {object + step, object};
    const TwoPlaces steps = {2 * step, 2 * step};
    for (size_t left = run - odd; left != 0; left -= 2, pair += steps) {
      // The places lie at multiples of 8: a store through a pointer to a pair may want 16.
      __builtin_memcpy(lowest + more + left - 2, &pair, sizeof pair);
    }
  }
};

// Fills places with objects of one bitmap word, whose bits are set in `left`, which is not 0, and
// clears their bits. `first` is the address of the word's first object. Objects in a straight run
// need no search for each bit.
LOFT_ALWAYS_INLINE void take_from_word(uint64_t& left, uintptr_t first, uint32_t size,
                                       Places& places) {
  const auto fill_one = [&] {
    places.fill(first + lowest_bit(left) * size);
    left &= left - 1;
  };
  if ((left | (left - 1)) != ~uint64_t{0}) {
    if (places.more >= 64) {
      do fill_one();
      while (left != 0);
      return;
    }
    for (;;) {
      fill_one();
      if (LOFT_UNLIKELY(places.more == 0) || left == 0) return;
    }
  }
  // All from the lowest on.
  const unsigned lowest = lowest_bit(left);
  const size_t run = least(size_t{64} - lowest, places.more);
  left = left << (run - 1) << 1;  // run may be 64
  places.fill_run(first + lowest * size, size, run);
}

}  // namespace

// Takes objects that lie on no page that is gone.
unsigned Slab::take_resident(void** slots, unsigned wanted) {
  Places places{slots - (wanted - 1), wanted};
  const uint32_t size = shape().size;
  for (uint64_t words = summary; words != 0 && places.more != 0; words &= words - 1) {
    const unsigned word = lowest_bit(words);
    uint64_t resident = 0;
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      const uint32_t object = word * 64 + lowest_bit(left);
      if (!gone.meets(pages_of(object, object))) resident |= left & -left;
    }
    if (resident == 0) continue;
    uint64_t left = resident;
    take_from_word(left, base + word * 64 * size_t{size}, size, places);
    bits[word] &= ~(resident & ~left);
    if (bits[word] == 0) summary &= ~(uint64_t{1} << word);
  }
  const auto taken = static_cast<unsigned>(wanted - places.more);
  give(taken);
  return taken;
}

// Takes the lowest objects.
unsigned Slab::take_lowest(void** slots, unsigned wanted) {
  Places places{slots - (wanted - 1), wanted};
  const uint32_t size = shape().size;
  uint64_t words = summary;
  do {
    const unsigned word = lowest_bit(words);
    uint64_t left = bits[word];
    take_from_word(left, base + word * 64 * size_t{size}, size, places);
    bits[word] = left;
    if (left == 0) words &= words - 1;
  } while (places.more != 0 && words != 0);
  summary = words;
  // Objects between two of those taken are in use, so their pages have memory, too.
  if (LOFT_UNLIKELY(!gone.empty())) {
    const auto offset = [&](void* object) { return reinterpret_cast<uintptr_t>(object) - base; };
    const size_t page = os::page_size();
    gone.remove({static_cast<unsigned>(offset(slots[0]) / page),
                 static_cast<unsigned>((offset(places.lowest[places.more]) + size - 1) / page)});
  }
  const auto taken = static_cast<unsigned>(wanted - places.more);
  give(taken);
  return taken;
}

unsigned Slab::take(void** slots, unsigned wanted) {
  LOFT_CHECK(free != 0 && wanted != 0);
  if (LOFT_LIKELY(!holed)) return take_lowest(slots, wanted);
  unsigned taken = take_resident(slots, wanted);
  if (taken == wanted) return taken;
  if (free != 0) taken += take_lowest(slots - taken, wanted - taken);
  holed = !gone.empty();
  return taken;
}

void* Slab::take_zero() {
  if (gone.empty()) return nullptr;
  for (uint64_t words = summary; words != 0; words &= words - 1) {
    const unsigned word = lowest_bit(words);
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      const uint32_t object = word * 64 + lowest_bit(left);
      const Pages pages = pages_of(object, object);
      if (!gone.has_all(pages)) continue;
      bits[word] &= ~(left & -left);
      if (bits[word] == 0) summary &= ~(uint64_t{1} << word);
      give(1);
      gone.remove(pages);
      if (holed) holed = !gone.empty();
      return reinterpret_cast<void*>(base + size_t{object} * shape().size);
    }
  }
  return nullptr;
}

void** Slab::put_row(void** objects, void** end) {
  const uintptr_t from = base;
  const size_t bytes = size_t{shape().granules} << kGranuleLog;
  const uint64_t inverse = shape().inverse;
  const uint64_t start_limit = shape().start_limit;
  void** const first = objects;
  uint64_t words = summary;
  for (; objects != end; ++objects) {
    void* const p = *objects;
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - from;
    if (offset >= bytes) break;
    put_one(p, offset, inverse, start_limit, words);
  }
  summary = words;
  take_back(static_cast<uint32_t>(objects - first));
  return objects;
}

void Slab::clear_free() const {
  for (unsigned word = 0; word < shape().words; ++word) {
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      const uint32_t object = word * 64 + lowest_bit(left);
      if (gone.has_all(pages_of(object, object))) continue;
      __builtin_memset(reinterpret_cast<void*>(base + size_t{object} * shape().size), 0,
                       shape().size);
    }
  }
}

void Slab::end_use(uint32_t object) {
  if (sealed == 0) return;
  // Relaxed: the lock orders the owners.
  uint16_t* uses = seals().uses.load(memory_order_relaxed);
  if (LOFT_UNLIKELY(uses == nullptr)) {
    uses = static_cast<uint16_t*>(metadata::allocate(uses_bytes(shape())));
    if (uses == nullptr) return;
    // Release: pairs with the acquire in use_of.
    seals().uses.store(uses, memory_order_release);
  }
  __atomic_store_n(&uses[object], static_cast<uint16_t>(uses[object] + 1), __ATOMIC_RELAXED);
}

void Slab::check_invariants() const {
  unsigned count = 0;
  for (unsigned word = 0; word < shape().words; ++word) {
    count += count_bits(bits[word]);
    LOFT_CHECK((bits[word] != 0) == ((summary >> word & 1) != 0));
  }
  LOFT_CHECK(count == free);
  const unsigned last = shape().words - 1u;
  LOFT_CHECK((bits[last] & ~places_in(last)) == 0);
  LOFT_CHECK((list == Fullness::kFull) == (free == 0));
  LOFT_CHECK(list != Fullness::kSpare || empty());
  LOFT_CHECK(quiet == 0 ||
             quiet == static_cast<int32_t>(most_free_in(list, shape().objects) - free));
}

void Slab::report_bad_free(const void* p) const {
  const bool starts = object_starting_at(p) != kNoObject;
  slab::report_misuse(starts ? "double free of" : "free of an interior pointer", p, this);
}

void Slab::report_double_free(unsigned word, uint64_t twice) const {
  const size_t object = (size_t{word} * 64 + lowest_bit(twice)) * shape().size;
  slab::report_misuse("double free of", reinterpret_cast<const void*>(base + object), this);
}

constinit bool free_reads_as_zero = false;
constinit Seals* early_seals = nullptr;

namespace slab {

namespace {

constinit uint8_t sealed_from_now = 0;  // Slab::sealed of slabs that are made

void clear_pages(const Slab& slab) {
  const size_t page = os::page_size();
  for (unsigned i = 0; i < slab.pages(); ++i) {
    if (slab.gone.has_all({i, i})) continue;
    __builtin_memset(reinterpret_cast<void*>(slab.base + i * page), 0, page);
  }
}

Slab* make(void* block, SizeClass size_class, uint16_t owner, uintptr_t base, PageSet gone) {
  const Geometry& shape = geometry(size_class);
  auto* slab = new (block) Slab{base,
                                low_bits(shape.words),
                                nullptr,
                                nullptr,
                                shape.objects,
                                owner,
                                static_cast<uint8_t>(size_class),
                                Fullness::kSpare,
                                0,
                                false,
                                false,
                                sealed_from_now,
                                false,
                                gone};
  for (unsigned word = 0; word < shape.words; ++word) slab->bits[word] = slab->places_in(word);
  if (LOFT_UNLIKELY(slab->sealed != 0)) make_seals(&slab->seals());
  if (LOFT_UNLIKELY(free_reads_as_zero)) clear_pages(*slab);
  pagemap.fill(base, shape.granules,
               Entry(owner, bin_offset(size_class), metadata::index_of(slab)));
  return slab;
}

// Nobody has an object of the slab any more.
void release_uses(Slab* slab) {
  if (LOFT_LIKELY(slab->sealed == 0)) return;
  uint16_t* const uses = slab->seals().uses.load(memory_order_relaxed);
  if (uses != nullptr) metadata::release(uses, uses_bytes(slab->shape()));
}

bool is_dirty(const Slab& slab) { return slab.gone.count() != slab.pages(); }

LOFT_COLD void give_back(SizeClass size_class, span::Range range) {
  const size_t granules = geometry(size_class).granules;
  if (LOFT_UNLIKELY(free_reads_as_zero)) {
    apart::release(size_class, range.base, granules, !range.zero);
  } else {
    span::release(range.base, granules, !range.zero);
  }
}

}  // namespace

unsigned create_all(SizeClass size_class, uint16_t owner, Slab** slabs, unsigned most,
                    size_t filled) {
  const Geometry& shape = geometry(size_class);
  span::Range ranges[kMostAtOnce];
  unsigned count = 1;
  if (LOFT_UNLIKELY(free_reads_as_zero)) {
    ranges[0] = apart::acquire(size_class, shape.granules);
    if (ranges[0].base == 0) return 0;
  } else {
    count = span::acquire_slabs(shape.granules, most, filled, ranges);
    if (count == 0) return 0;
  }
  void* blocks[kMostAtOnce];
  // Fewer, if there is no memory to describe them all.
  while (!metadata::allocate_all(metadata_bytes(shape, sealed_from_now), blocks, count)) {
    give_back(size_class, ranges[--count]);
    if (count == 0) return 0;
  }
  for (unsigned i = 0; i < count; ++i) {
    PageSet gone{};
    if (ranges[i].zero) gone.add({0, pages_in(shape) - 1});
    slabs[i] = make(blocks[i], size_class, owner, ranges[i].base, gone);
  }
  return count;
}

// The slabs that there are get their Seals in a table, by numbers below kSealedBehind.
void seal_all() {
  constexpr size_t kMost = kSealedBehind - 1u;
  sealed_from_now = kSealedBehind;
  early_seals = static_cast<Seals*>(metadata::allocate(kMost * sizeof(Seals)));
  size_t count = early_seals == nullptr ? kMost : 0;
  for (uintptr_t at = window.heap.base;
       count != kMost && pagemap.contains(reinterpret_cast<void*>(at)); at += kGranule) {
    const Entry entry = pagemap.of(reinterpret_cast<void*>(at));
    if (!entry.is_slab() || slab::at(entry)->base != at) continue;
    make_seals(&early_seals[count]);
    slab::at(entry)->sealed = static_cast<uint8_t>(++count);
  }
}

void set_owner(Slab* slab, uint16_t owner) {
  slab->owner = owner;
  slab->moved = true;
  pagemap.fill(slab->base, slab->shape().granules,
               Entry(owner, bin_offset(slab->size_class), metadata::index_of(slab)));
}

Slab* recut(Slab* slab, SizeClass size_class) {
  LOFT_CHECK(slab->empty() && slab->list == Fullness::kSpare);
  release_uses(slab);
  const Slab was = *slab;
  const size_t before = metadata_bytes(was.shape(), was.sealed);
  const size_t after = metadata_bytes(geometry(size_class), sealed_from_now);
  void* block = slab;
  if (round_up(before, kMetadataUnit) != round_up(after, kMetadataUnit)) {
    pagemap.fill(was.base, was.shape().granules, Entry{});
    metadata::release(slab, before);
    block = metadata::allocate(after);
  }
  if (LOFT_UNLIKELY(block == nullptr)) {
    span::release(was.base, was.shape().granules, is_dirty(was));
    return nullptr;
  }
  return make(block, size_class, was.owner, was.base, was.gone);
}

namespace {

LOFT_NOINLINE void destroy_apart(Slab* slab) {
  release_uses(slab);
  const Slab was = *slab;
  pagemap.fill(was.base, was.shape().granules, Entry{});
  metadata::release(slab, metadata_bytes(was.shape(), was.sealed));
  apart::release(was.size_class, was.base, was.shape().granules, is_dirty(was));
}

}  // namespace

void destroy_all(Slab* const* slabs, unsigned count) {
  if (LOFT_UNLIKELY(free_reads_as_zero)) {
    for (unsigned i = 0; i < count; ++i) destroy_apart(slabs[i]);
    return;
  }
  metadata::MetadataBlock blocks[kMostAtOnce];
  span::Returned spans[kMostAtOnce];
  for (unsigned i = 0; i < count; ++i) {
    const Slab& slab = *slabs[i];
    LOFT_CHECK(slab.empty() && slab.list == Fullness::kSpare);
    const Geometry& shape = slab.shape();
    const size_t bytes = size_t{shape.granules} << kGranuleLog;
    pagemap.fill(slab.base, shape.granules, Entry{});
    spans[i] = {slab.base, shape.granules, is_dirty(slab), bytes};
    blocks[i] = {slabs[i], metadata_bytes(shape, slab.sealed)};
    release_uses(slabs[i]);
  }
  metadata::release_all(blocks, count);
  span::release_all(spans, count);
}

void report_without_slab(const void* p) {
  os::fault(Text() << "double free of " << p << ", whose slab was given back since");
}

Text misuse(const char* what, const void* p, const Slab* slab) {
  Text line;
  line << what << " " << p << ": slab " << reinterpret_cast<const void*>(slab->base)
       << ", size class " << uint64_t{slab->shape().size} << " bytes";
  return line;
}

void report_misuse(const char* what, const void* p, const Slab* slab) {
  os::fault(misuse(what, p, slab));
}

}  // namespace slab
}  // namespace loft
