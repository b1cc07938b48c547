// Medium runs: memory cut into objects of whole pages, above 32 KiB and up to 4 MiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/bound.h"
#include "base/list.h"
#include "base/macros.h"
#include "base/peek.h"
#include "base/size_class.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/free_spans.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/unused.h"

namespace loft {

// The smallest page size. Where the system's is larger, all rows are multiples of its pages.
inline constexpr size_t kRunPage = 4096;
inline constexpr size_t kMostRunBytes = size_t{16} << 20;
inline constexpr unsigned kMostRunPages = kMostRunBytes / kRunPage;

// A set of pages of one medium run, by number.
struct PageRow {
  unsigned first;
  unsigned count;
};

class PageBits {
 public:
  void add(PageRow row) {
    for_words(row, [&](unsigned word, uint64_t bits) { words_[word] |= bits; });
  }
  void remove(PageRow row) {
    for_words(row, [&](unsigned word, uint64_t bits) { words_[word] &= ~bits; });
  }
  unsigned count_in(PageRow row) const {
    unsigned sum = 0;
    for_words(row, [&](unsigned word, uint64_t bits) { sum += count_bits(words_[word] & bits); });
    return sum;
  }
  // The first page behind all of the set.
  unsigned end() const {
    for (unsigned word = kMostRunPages / 64; word-- != 0;) {
      if (words_[word] != 0) return word * 64 + highest_bit(words_[word]) + 1;
    }
    return 0;
  }
  // Makes this set equal to `other` in the row.
  void copy(const PageBits& other, PageRow row) {
    for_words(row, [&](unsigned word, uint64_t bits) {
      words_[word] = (words_[word] & ~bits) | (other.words_[word] & bits);
    });
  }

  // Calls visit(row) for each row of pages of the set within `row`.
  template <class Visit>
  void for_each_row(PageRow row, Visit visit) const {
    const unsigned end = row.first + row.count;
    for (unsigned first = row.first; (first = search(first, end, 0)) != end;) {
      const unsigned next = search(first, end, ~uint64_t{0});
      visit(PageRow{first, next - first});
      first = next;
    }
  }

 private:
  // The first page from `page` on, below `end`, whose bit differs from those of `flip`; else `end`.
  unsigned search(unsigned page, unsigned end, uint64_t flip) const {
    while (page < end) {
      const uint64_t bits = (words_[page / 64] ^ flip) >> page % 64;
      if (bits != 0) return least(page + lowest_bit(bits), end);
      page = (page / 64 + 1) * 64;
    }
    return end;
  }

  template <class Visit>
  static void for_words(PageRow row, Visit visit) {
    while (row.count != 0) {
      const unsigned in_word = least(row.count, 64 - row.first % 64);
      visit(row.first / 64, ~uint64_t{0} >> (64 - in_word) << row.first % 64);
      row.first += in_word;
      row.count -= in_word;
    }
  }

  uint64_t words_[kMostRunPages / 64];
};

// A medium run: a span that belongs to one heap and is cut into pages of 4 KiB. Its objects are
// medium ones: longer than a slab's, up to kMediumMax. What lies between them are gaps. The tables
// are beside the run, never in it, and the owner's lock guards them, except the objects' words.
// Base and pages do not change while an object lives in the run.
//
// snmalloc's medium slabs (ISMM'19 2.6) hold objects of one size each. Here one run serves all
// lengths: an object takes its own pages and no more.

constexpr bool is_medium(size_t bytes) { return bytes > kSmallMax && bytes <= kMediumMax; }

// What is known of a page: of an object at its first page, of a gap at its first and at its last.
// Zero elsewhere.
//
//   object  0 | more 7 | kept 1 | 1 | asked - 1 22
//   gap     1 | metadata index of its Gap 31
//
// asked  bytes that the program asked for
// more   pages beyond those that these need
// kept   freed: in a cache, or on its way to its heap
//
// So an object that has the pages which a request needs, and no more, has a word that differs from
// the request's in its low bits alone.
//
// Whoever has the object writes the word: the program's thread, the cache that keeps it, and its
// heap, under its lock, when it is handed out or given back. Relaxed: the word goes with the
// object, and whatever hands that over orders it. Others read it as a hint, for statistics and
// checks.
class MediumWord {
 public:
  struct Object {
    unsigned pages;
    bool kept;
    bool vague;  // fewer bytes may have been asked for
    size_t asked;
  };
  static constexpr unsigned kMostMore = 0x7f;
  static unsigned pages_for(size_t asked) {  // asked != 0
    return static_cast<unsigned>(round_up(asked, os::known_page_size.load(memory_order_relaxed)) /
                                 kRunPage);
  }

  // Whether an object begins here; and whether the program has it.
  bool begins() const { return (load() & (kGap | kObject)) == kObject; }
  bool in_use() const { return (load() & (kGap | kObject | kKept)) == kObject; }
  unsigned pages() const { return pages_in(load()); }  // of the object that begins here
  // Of no pages, if none begins here.
  Object object() const { return object_in(load()); }
  // The same, of a run that may be gone: its memory may hold something else.
  Object peeked() const { return object_in(peek(word_)); }
  // Whether an object in use begins here that has the pages for `asked` bytes, which may be any
  // number, and no more. Never where these are no medium size: they would reach into other fields.
  // `page` is the page size, or 0, which refuses.
  LOFT_ALWAYS_INLINE bool serves(size_t asked, const Bound& page) const {
    return LOFT_LIKELY(is_medium(asked)) && page.contains(load() ^ word_of(asked));
  }
  // An object in use of the pages for `asked` bytes.
  void set(size_t asked) { store(static_cast<uint32_t>(word_of(asked))); }
  // Of `pages` pages, which suffice. What was asked for is not known if they are very many more.
  void set(unsigned pages, size_t asked) {
    const size_t known = pages > kMostMore ? most(asked, (pages - kMostMore) * kRunPage) : asked;
    const unsigned more = pages - pages_for(known);
    store(static_cast<uint32_t>(word_of(known)) | more << kMoreShift);
  }
  void keep() { store(load() | kKept); }
  void let_go() { store(load() & ~kKept); }

  // --- The heap, under its lock. ---

  uint32_t gap() const {  // 0: none begins or ends here
    const uint32_t word = load();
    return (word & kGap) != 0 ? word & ~kGap : 0;
  }
  void set_gap(uint32_t index) { store(kGap | index); }
  void clear() { store(0); }

 private:
  static constexpr uint32_t kObject = uint32_t{1} << 22;
  static constexpr uint32_t kKept = uint32_t{1} << 23;
  static constexpr unsigned kMoreShift = 24;
  static constexpr uint32_t kGap = uint32_t{1} << 31;
  static_assert(kMediumMax <= kObject && kMostMore << kMoreShift < kGap);

  static uint64_t word_of(size_t asked) { return asked - 1 + kObject; }
  static Object object_in(uint32_t word) {
    if ((word & (kGap | kObject)) != kObject) return {0, false, false, 0};
    // Where set made more of what was asked for, the system's page may have taken some of that.
    const size_t page = os::known_page_size.load(memory_order_relaxed) / kRunPage;
    const bool vague = word >> kMoreShift > kMostMore - page;
    return {pages_in(word), (word & kKept) != 0, vague, asked_in(word)};
  }
  static size_t asked_in(uint32_t word) { return (word & (kObject - 1)) + size_t{1}; }
  static unsigned pages_in(uint32_t word) {
    return pages_for(asked_in(word)) + (word >> kMoreShift);
  }
  uint32_t load() const { return __atomic_load_n(&word_, __ATOMIC_RELAXED); }
  void store(uint32_t word) { __atomic_store_n(&word_, word, __ATOMIC_RELAXED); }

  uint32_t word_;
};

struct MediumRun;

// Free pages of a run, as many as lie side by side.
struct alignas(kMetadataUnit) Gap {
  MediumRun* run;
  unsigned first;
  unsigned pages;
  Gap* next;
  Gap* prev;

  size_t length() const { return pages; }  // for RunBins
  PageRow row() const { return {first, pages}; }
};

struct alignas(kMetadataUnit) MediumRun {
  uintptr_t base;
  unsigned pages;
  bool waited;  // wholly free at the last round, and since
  MediumRun* next;
  MediumRun* prev;
  PageBits touched;  // pages that may hold memory, and count; the others read as zero
  PageBits idle;     // of gaps: touched, and free at the last round and since
  __extension__ MediumWord words[];

  uintptr_t end() const { return base + pages * kRunPage; }
  size_t granules() const { return (end() - base) >> kGranuleLog; }
  uintptr_t address_of(unsigned page) const { return base + page * kRunPage; }
  unsigned page_at(const void* p) const {
    return static_cast<unsigned>((reinterpret_cast<uintptr_t>(p) - base) / kRunPage);
  }
  // The page that begins at p, which lies in the run; kMostRunPages or more if none begins there.
  LOFT_ALWAYS_INLINE uintptr_t page_starting_at(const void* p) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - base;
    return offset / kRunPage | offset << (64 - lowest_bit(kRunPage));
  }
  // Its word; nullptr if none begins there.
  LOFT_ALWAYS_INLINE MediumWord* word_starting_at(const void* p) {
    const uintptr_t page = page_starting_at(p);
    return LOFT_LIKELY(page < kMostRunPages) ? &words[page] : nullptr;
  }
  // The word of the object that begins at p.
  MediumWord& word_at(const void* p) { return words[page_at(p)]; }
  size_t bytes_of(const void* p) { return word_at(p).object().pages * kRunPage; }
  // Whether the program has an object that begins at p.
  bool in_use_at(const void* p) {
    const MediumWord* const word = word_starting_at(p);
    return word != nullptr && word->in_use();
  }
  // The object that begins at p, for statistics: the run may be gone.
  MediumWord::Object peek_at(const void* p) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(p) - peek(base);
    if (offset % kRunPage != 0) return {};
    if (offset / kRunPage >= least(peek(pages), kMostRunPages)) return {};
    const MediumWord* const word = &words[offset / kRunPage];
    return metadata::contains(metadata::index_of(word)) ? word->peeked() : MediumWord::Object{};
  }
  // The first page of the object that covers p, if one does.
  unsigned first_of(const void* p) const {
    unsigned first = page_at(p);
    while (first != 0 && !words[first].begins()) --first;
    return first;
  }
  // Whether the program has an object that covers p.
  bool covers(const void* p) const {
    const unsigned first = first_of(p);
    return words[first].in_use() && page_at(p) - first < words[first].object().pages;
  }
};

namespace medium {

// The heap of the sampled objects, which has nothing else: they are whole pages, however short they
// are. kNoHeap: nothing was sampled yet. Relaxed: whoever has such an object has seen it.
extern LOFT_HIDDEN Atomic<HeapId> samples;
inline bool is_sampled(Entry entry) {
  return entry.owner() == samples.load(memory_order_relaxed) && entry.bin() == kMedium;
}

inline MediumRun* run_at(Entry entry) { return metadata::at_index<MediumRun>(entry.index()); }

// What the program may use of an object of `entry`: its pages. Of a sampled one as much as malloc
// would have given it without the sample.
inline size_t usable_bytes(Entry entry, MediumWord::Object object) {
  const size_t bytes = object.pages * kRunPage;
  if (LOFT_LIKELY(!is_sampled(entry)) || object.asked > kSmallMax) return bytes;
  return object.asked == 0 ? 0 : class_size(class_of(object.asked));
}
inline size_t usable_bytes(Entry entry, const void* p) {
  return usable_bytes(entry, run_at(entry)->word_at(p).object());
}

// A run of at least `pages` pages that belongs to heap `owner`. `wanted`: how many it may have
// where these have no memory, which costs addresses alone. Only touched pages count against the
// limits (os/limits.h). nullptr without memory. The caller makes its pages a gap.
MediumRun* create(unsigned pages, unsigned wanted, HeapId owner);

// Releases the span and the metadata of a run without objects, of which `touched` pages are
// touched.
void destroy(MediumRun* run, unsigned touched);

// Makes the run another heap's. Under the locks of both heaps.
void set_owner(MediumRun* run, HeapId owner);

// Stops the program with one line.
[[noreturn]] LOFT_COLD void report_misuse(const char* what, const void* p, MediumRun* run);

}  // namespace medium

// The medium runs of one heap, under its lock. An object comes from the shortest gap of all runs
// that suffices: emptier runs then become empty.
//
// Gaps keep their memory for a while. A round, some ticks after the last, purges what was free all
// that time, and gives back runs that were empty.

class MediumRuns {
 public:
  struct Taken {
    MediumRun* run;  // nullptr: none
    unsigned first;
    bool zero;      // no page holds memory
    bool resident;  // all may
  };

  // Takes `pages` pages, where as many more follow if `room`. None if no gap is that long, or
  // without memory.
  Taken take(unsigned pages, bool room);
  // Makes a run with a gap of at least that many. False without memory.
  bool grow(unsigned pages, HeapId owner);
  // Takes the `more` pages behind an object of `pages`. False if they are not free.
  bool extend(MediumRun* run, unsigned first, unsigned pages, unsigned more);
  // Gives an object's pages back, or the last ones of an object that becomes shorter. May release
  // the run.
  void put(MediumRun* run, PageRow row);
  void cut_off(MediumRun* run, PageRow row);

  // Moves a run with a gap of at least `pages` from `other` here, whose heap is `owner`; with
  // `sparse` only one without objects, or where the gap has memory for `pages` and half of all
  // that the run has. False if there is none. *moved: the bytes of its objects. Under the locks of
  // both heaps.
  bool take_over(MediumRuns& other, unsigned pages, bool sparse, HeapId owner, size_t* moved);

  // Purges all gaps, or with kIdle what was free at the last round. Stops early after `most` bytes,
  // or if a thread sleeps on one of the locks; nullptr for none. Returns the bytes purged.
  enum class Round : uint8_t { kAll, kIdle };
  size_t purge(Round round, const os::Lock* own, const os::Lock* awaited, size_t most);

  // Makes a round if one is due. Called when a tick has passed. Returns the bytes purged.
  size_t tick(uint32_t now);

  // Releases all runs without objects.
  void give_back_empty();

  size_t pages() const { return pages_.get(); }
  // An object of so many bytes has arrived, of which its sender has told.
  void was_told(size_t bytes) { told_.was_told(bytes); }
  // Tells of what was taken.
  void see_less() { told_.see_less(dirty_pages() * kRunPage); }

  size_t dirty_pages() const { return dirty_.get(); }  // of gaps: perhaps resident

  void check(HeapId owner) const;  // invariants; debug builds

 private:
  bool have_descriptors(unsigned wanted);
  Gap* describe(MediumRun* run, PageRow row);
  void discard(Gap* gap);
  void list(Gap* gap);
  void unlist(Gap* gap);
  Taken claim(Gap* gap, unsigned count);
  void add(MediumRun* run);
  void remove(MediumRun* run);
  void release(Gap* whole);
  void keep_or_release(Gap* whole);
  size_t purge_gap(Gap* gap, Round round);
  static bool is_whole(const Gap* gap) { return gap->pages == gap->run->pages; }
  static bool is_half_free(const Gap* gap, unsigned pages);
  Gap* find_to_spare(unsigned pages) const;
  bool rests() const { return dirty_.get() == 0 && empty_ == 0; }

  RunBins<Gap, 13> gaps_;
  List<MediumRun> runs_;
  // Descriptors, in gaps or spare. There are at least as many as objects and runs, which is the
  // most that gaps can be: so giving back needs no memory.
  Gap* spares_ = nullptr;  // linked by `next`
  unsigned descriptors_ = 0;
  unsigned objects_ = 0;
  unsigned run_count_ = 0;
  unsigned empty_ = 0;                     // runs without objects
  uint32_t last_round_ = 0;                // in ticks of span
  Counter pages_;                          // of all runs
  Counter dirty_;                          // pages
  unused::Teller<unused::kRunStep> told_;  // of the dirty ones
};

}  // namespace loft
