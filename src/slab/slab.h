// A slab: a span cut into objects of one size class. Its free space is a bitmap beside it, never
// links inside the objects. A slab belongs to one heap, whose lock guards all of this. Base and
// size class do not change while the slab has an object; any thread may then read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/macros.h"
#include "base/peek.h"
#include "os/fault.h"
#include "os/os.h"
#include "slab/geometry.h"
#include "space/metadata.h"
#include "space/pagemap.h"

namespace loft {

inline constexpr unsigned kMostPages = kMaxSlabBytes / 4096;  // 4 KiB is the smallest page size

// Adjacent pages of one slab, by number.
struct Pages {
  unsigned first;
  unsigned last;
};

// Any pages of one slab.
class PageSet {
 public:
  // A recent state of a set that others change.
  PageSet peeked() const {
    PageSet now{};
    for (unsigned i = 0; i < 2; ++i) now.words_[i] = peek(words_[i]);
    return now;
  }

  bool has(unsigned page) const { return (words_[page / 64] >> page % 64 & 1) != 0; }
  bool empty() const { return (words_[0] | words_[1]) == 0; }
  unsigned count() const { return count_bits(words_[0]) + count_bits(words_[1]); }
  bool differs(const PageSet& other) const {
    return ((words_[0] ^ other.words_[0]) | (words_[1] ^ other.words_[1])) != 0;
  }
  // How many pages of this set are missing from `now`, a later state of it.
  unsigned count_lost(const PageSet& now) const {
    unsigned lost = 0;
    for (unsigned i = 0; i < 2; ++i) {
      if (words_[i] != now.words_[i]) lost += count_bits(words_[i] & ~now.words_[i]);
    }
    return lost;
  }

  // From the first page of this set that is missing from `now`, a later state of it, up to `count`
  // pages in a row that are of this set, 64 at most. One is missing.
  Pages lost_and_next(const PageSet& now, unsigned count) const {
    const uint64_t lost[] = {words_[0] & ~now.words_[0], words_[1] & ~now.words_[1]};
    const unsigned first = lost[0] != 0 ? lowest_bit(lost[0]) : 64 + lowest_bit(lost[1]);
    const uint64_t here = first < 64 ? words_[0] >> first | words_[1] << 1 << (63 - first)
                                     : words_[1] >> (first - 64);
    const unsigned row = here == ~uint64_t{0} ? 64 : lowest_bit(~here);
    return {first, first + most(least(row, count), 1u) - 1};
  }

  void add(Pages pages) {
    words_[0] |= bits(pages, 0);
    words_[1] |= bits(pages, 64);
  }
  void remove(Pages pages) {
    words_[0] &= ~bits(pages, 0);
    words_[1] &= ~bits(pages, 64);
  }
  bool has_all(Pages pages) const {
    return (bits(pages, 0) & ~words_[0]) == 0 && (bits(pages, 64) & ~words_[1]) == 0;
  }
  bool meets(Pages pages) const {
    return ((words_[0] & bits(pages, 0)) | (words_[1] & bits(pages, 64))) != 0;
  }

 private:
  // The part of [first, last] in [from, from + 64), as bits.
  static constexpr uint64_t bits(Pages pages, unsigned from) {
    if (pages.last < from || pages.first >= from + 64) return 0;
    const unsigned low = pages.first < from ? 0 : pages.first - from;
    const unsigned high = least(pages.last - from, 63u);
    return ~uint64_t{0} >> (63 - high) & ~uint64_t{0} << low;
  }

  uint64_t words_[2];
};
static_assert(kMostPages == 128);

// Whether free objects read as zero (hardened=full): what was written into them is cleared again,
// and so are pages of which slabs are made. Set when the library is loaded.
extern LOFT_HIDDEN bool free_reads_as_zero;

// Whether `bits` of a bitmap word include places behind the slab's last object.
constexpr bool beyond_last_object(const Geometry& shape, unsigned word, uint64_t bits) {
  const unsigned tail = shape.objects % 64;
  return word + 1u == shape.words && tail != 0 && bits >> tail != 0;
}

// How much of a slab is free, coarsely: the lists of a heap, in the order in which refills search
// them. Fuller slabs come first, so that emptier ones drain. Nearly full slabs come last, because a
// visit to a slab should yield more than a few objects.
enum class Fullness : uint8_t { kHalf, kSparse, kSparser, kNearlyFull, kFull, kSpare };
inline constexpr unsigned kFullnessLists = 4;  // full and spare slabs are in none

constexpr Fullness fullness_of(uint32_t free, uint32_t objects) {
  if (free * 2 > objects) return free * 4 > objects * 3 ? Fullness::kSparser : Fullness::kSparse;
  if (free * 8 >= objects) return Fullness::kHalf;
  return free != 0 ? Fullness::kNearlyFull : Fullness::kFull;
}

// The largest number of free objects of a slab in this list. A wholly free slab, unless spare, is
// beyond that of every list: it is examined once its last object comes back.
constexpr uint32_t most_free_in(Fullness fullness, uint32_t objects) {
  switch (fullness) {
    case Fullness::kHalf:
      return objects / 2;
    case Fullness::kSparse:
      return objects * 3 / 4;
    case Fullness::kSparser:
      return objects - 1;
    case Fullness::kNearlyFull:
      return (objects + 7) / 8 - 1;
    case Fullness::kFull:
      return 0;
    case Fullness::kSpare:
      return objects;
  }
  return 0;
}

inline unsigned pages_in(const Geometry& shape) {
  return static_cast<unsigned>((size_t{shape.granules} << kGranuleLog) / os::page_size());
}

// What messages in a slab's objects are bound to, if they are keyed (remote/key.h).
struct Seals {
  uint64_t salt;           // 48 bits; no other slab has or had it
  Atomic<uint16_t*> uses;  // of each object, the messages that arrived in it. nullptr: all 0
};

// Behind the bitmap, for slabs that are made from then on; in a table, for the few that there were.
inline constexpr uint8_t kSealedBehind = 255;
extern LOFT_HIDDEN Seals* early_seals;

// The pages on which the objects first .. last of a slab lie.
inline Pages pages_of(const Geometry& shape, uint32_t first, uint32_t last) {
  const size_t page = os::page_size();
  return {static_cast<unsigned>(size_t{first} * shape.size / page),
          static_cast<unsigned>(((size_t{last} + 1) * shape.size - 1) / page)};
}

// Invariants:
//   free == sum of count_bits(bits[w]), summary bit w set <=> bits[w] != 0
//   no bit at or beyond geometry(size_class).objects is set
//   list == kFull <=> free == 0: a heap finds every slab with room, and no full one
//   list == kSpare => all objects are free: the heap keeps the slab for its next need
//   quiet == most_free_in(list, geometry(size_class).objects) - free, or 0: objects were handed out
//            since it was put into its list, or it is settled
struct alignas(kMetadataUnit) Slab {
  uintptr_t base;
  uint64_t summary;
  Slab* next;
  Slab* prev;
  uint32_t free;
  uint16_t owner;
  uint8_t size_class;
  Fullness list;                  // its list, as of the last objects that came back
  int32_t quiet;                  // so many may come back before it is examined
  bool holed;                     // holes were purged, and some may be left
  bool moved;                     // was taken over; never cleared
  uint8_t sealed;                 // where its Seals are; 0: it has none
  bool settled;                   // nothing came back since the heap last looked for holes here
  PageSet gone;                   // pages without memory, which read as zero: purged, or never used
  __extension__ uint64_t bits[];  // bit set: object free

  const Geometry& shape() const { return geometry(size_class); }
  // The index of the object that starts at p, or kNoObject.
  uint32_t object_starting_at(const void* p) const {
    return loft::object_starting_at(shape(), reinterpret_cast<uintptr_t>(p) - base);
  }

  unsigned pages() const { return pages_in(shape()); }
  unsigned charged_pages() const { return pages() - gone.count(); }
  Pages pages_of(uint32_t first, uint32_t last) const {
    return loft::pages_of(shape(), first, last);
  }
  // The bits of a bitmap word that stand for objects.
  uint64_t places_in(unsigned word) const {
    const unsigned behind = shape().objects - word * 64u;
    return behind >= 64 ? ~uint64_t{0} : (uint64_t{1} << behind) - 1;
  }

  // The slab has some.
  Seals& seals() {
    return LOFT_LIKELY(sealed == kSealedBehind) ? *reinterpret_cast<Seals*>(bits + shape().words)
                                                : early_seals[sealed - 1];
  }
  const Seals& seals() const { return const_cast<Slab*>(this)->seals(); }

  // What a message in this object is bound to, beside its address. Another value in another slab,
  // and after end_use. Whoever has the object may ask.
  uint64_t use_of(uint32_t object) const {
    if (sealed == 0) return 0;
    // Acquire: pairs with the release in end_use. The counts of the other objects read as zero.
    const uint16_t* const uses = seals().uses.load(memory_order_acquire);
    // Relaxed: who has the object has it from the owner, after that counted. Atomic for statistics,
    // which read beside the owner.
    const uint16_t count =
        uses == nullptr ? uint16_t{0} : __atomic_load_n(&uses[object], __ATOMIC_RELAXED);
    return seals().salt << 16 | count;
  }
  // A message arrived in this object. Under the lock. Without memory for counts, a slab has none.
  void end_use(uint32_t object);

  bool empty() const { return free == shape().objects; }

  void set_list(Fullness fullness) {
    list = fullness;
    quiet = static_cast<int32_t>(most_free_in(fullness, shape().objects) - free);
    settled = false;
  }

  // There is no new hole until an object comes back, or pages are populated.
  void settle() {
    settled = true;
    quiet = 0;
  }

  // Objects were handed out. The slab stays in its list until objects come back.
  void give(uint32_t objects) {
    free -= objects;
    quiet = 0;
  }
  // Objects came back.
  void take_back(uint32_t objects) {
    free += objects;
    quiet -= static_cast<int32_t>(objects);
  }
  bool is_due() const { return quiet < 0; }  // to be examined

  // Hands out up to `wanted` free objects, the lowest address first, to slots[0], slots[-1], ...
  // Returns how many. The order keeps the sparse end of a slab untouched and gives the prefetcher a
  // run. The slab is not full (it is in a list of its heap), and `wanted` is not 0.
  unsigned take(void** slots, unsigned wanted);

  // Hands out the lowest free object that lies only on pages without memory: it reads as zero.
  // nullptr if there is none.
  void* take_zero();

  // Marks objects of one bitmap word as free. Stops the program if one of them was free already.
  LOFT_ALWAYS_INLINE void put_word(unsigned word, uint64_t freed, unsigned count) {
    const uint64_t before = bits[word];
    if (LOFT_UNLIKELY((before & freed) != 0)) report_double_free(word, before & freed);
    bits[word] = before | freed;
    summary |= uint64_t{1} << word;
    take_back(count);
  }

  // The same of the object p, `offset` bytes from the base. `words` is to be the summary, and the
  // counts are the caller's. The rest is what shape() says, which a loop keeps in registers.
  LOFT_ALWAYS_INLINE void put_one(const void* p, uint64_t offset, uint64_t inverse,
                                  uint64_t start_limit, uint64_t& words) {
    const Product product = product_of(offset, inverse);
    if (LOFT_UNLIKELY(!starts_in(product, start_limit))) report_bad_free(p);
    const uint64_t object = index_in(product);
    uint64_t word = object / 64;
    uint64_t now = bits[word];
    if (LOFT_UNLIKELY(test_and_set(now, object))) report_bad_free(p);
    test_and_set(words, word);
    LOFT_FORGET(word);  // for an address each: a copy of it costs an instruction
    bits[word] = now;
  }

  // The same of objects in any order, of which the first lies in the slab, up to `end` or to the
  // first that does not. Returns that position.
  void** put_row(void** objects, void** end);

  // Stops the program if an invariant does not hold.
  void check() const {
    if (kDebug) check_invariants();
  }

  void clear_free() const;  // the free objects

  // No object starts at p, or it was free already.
  [[noreturn]] LOFT_COLD void report_bad_free(const void* p) const;
  [[noreturn]] void report_double_free(unsigned word, uint64_t twice) const;

  unsigned take_resident(void** slots, unsigned wanted);
  unsigned take_lowest(void** slots, unsigned wanted);
  void check_invariants() const;
};
static_assert(offsetof(Slab, bits) <= kMetadataUnit);

namespace slab {

// Makes up to `most` slabs, kMostAtOnce at most, for heap `owner`, with all objects free. The
// caller needs one yet: see span::acquire_slabs. Takes each lock that all heaps share
// once, or where memory is populated ahead the lock of the spans a few times. Returns
// how many there are; 0 without memory. `filled`: the bytes of the heap's slabs of this class, if
// the new ones will be touched as fully; else 0. A single slab may then lie in memory populated
// ahead (space/prefault.h).
inline constexpr unsigned kMostAtOnce = metadata::kMostAtOnce;
unsigned create_all(SizeClass size_class, uint16_t owner, Slab** slabs, unsigned most,
                    size_t filled);

// From now on, slabs have Seals. When the library is loaded, before the program has a second
// thread.
void seal_all();

// Makes the slab another heap's. Under the locks of both heaps.
void set_owner(Slab* slab, uint16_t owner);

// Turns an empty slab of one granule into one of another class of one granule. nullptr without
// memory; the old slab is then gone, too.
Slab* recut(Slab* slab, SizeClass size_class);

// Releases the spans and the metadata of up to kMostAtOnce empty slabs.
void destroy_all(Slab* const* slabs, unsigned count);

LOFT_ALWAYS_INLINE Slab* at(Entry entry) { return metadata::at_index<Slab>(entry.index()); }

// Whether the entry is a slab's with the owner and the bin of `like`, whose index is 0; and the
// slab. The index is all that differs then: one test, and one shift.
LOFT_ALWAYS_INLINE bool is_like(Entry entry, Entry like, Slab*& slab) {
  const uint64_t difference = entry.word() ^ like.word();
  if (LOFT_UNLIKELY((difference & Entry::kBinAndOwner) != 0)) return false;
  constexpr unsigned kShift = Entry::kIndexShift - highest_bit(kMetadataUnit);
  slab = reinterpret_cast<Slab*>(window.metadata.base + (difference >> kShift));
  return true;
}

// Where the slab of p begins. Most slabs have one granule: address and entry then suffice. This
// avoids the line of the metadata with the base, because the owner writes to that line.
inline uintptr_t base_of(const void* p, Entry entry) {
  return geometry(class_of_bin(entry.bin())).granules == 1
             ? round_down(reinterpret_cast<uintptr_t>(p), kGranule)
             : at(entry)->base;
}

// One line of text with the address, its slab and its size class. The second form stops the program
// with it.
Text misuse(const char* what, const void* p, const Slab* slab);
[[noreturn]] void report_misuse(const char* what, const void* p, const Slab* slab);

// Stops the program over an object freed before, whose slab has since become another's or nobody's.
[[noreturn]] void report_without_slab(const void* p);

}  // namespace slab
}  // namespace loft
