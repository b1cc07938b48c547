#include "leaks/leaks.h"

#include <new>

#include "base/bits.h"
#include "base/keep.h"
#include "cache/object.h"
#include "files/mappings.h"
#include "files/output.h"
#include "files/touched.h"
#include "profile/samples.h"
#include "space/metadata.h"
#include "space/pagemap.h"
#include "space/span.h"
#include "space/window.h"

namespace loft::leaks {

namespace {

struct Words {
  uintptr_t begin;
  uintptr_t end;
};

class Search {
 public:
  // `stack`: an address in the frame of the caller; what lies below it in its stack is dead.
  explicit Search(uintptr_t stack)
      : stack_(stack), base_(pagemap.base), end_(base_ + span::used_bytes()) {
    marks_ = static_cast<uint64_t*>(files::borrow(mark_bytes()));
    found_ = static_cast<ObjectRange*>(files::borrow(kMostFound * sizeof(ObjectRange)));
    words_ = static_cast<uintptr_t*>(files::borrow(kCopied));
  }
  ~Search() {
    files::give_back(marks_, mark_bytes());
    files::give_back(found_, kMostFound * sizeof(ObjectRange));
    files::give_back(words_, kCopied);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  bool run() {
    const KeepErrno keep;
    if (marks_ == nullptr || found_ == nullptr || words_ == nullptr) return false;
    void* const memory = files::borrow(sizeof(files::Mappings));
    if (memory == nullptr) return false;
    auto& mappings = *new (memory) files::Mappings;
    files::Mapping mapping;
    while (mappings.next(&mapping)) look_at_mapping(mapping);
    mappings.~Mappings();
    files::give_back(memory, sizeof(files::Mappings));
    if (copied_ == 0) return false;
    // What did not fit was marked and forgotten: all marked objects are looked at once more.
    while (overflowed_) {
      overflowed_ = false;
      look_at_marked();
    }
    profile::count_lost(is_lost, this);
    return true;
  }

  LookedAt looked_at() const { return {copied_, passed_over_}; }

 private:
  static constexpr size_t kMostFound = 1 << 18;
  static constexpr size_t kCopied = 64 * 1024;

  size_t mark_bytes() const { return round_up((end_ - base_) / kAlignment / 8 + 8, 8); }

  static bool is_lost(void* self, const void* p) {
    const auto& search = *static_cast<const Search*>(self);
    const auto at = reinterpret_cast<uintptr_t>(p);
    return at >= search.base_ && at < search.end_ && !search.is_marked(at);
  }

  bool is_marked(uintptr_t object) const {
    const size_t bit = (object - base_) / kAlignment;
    return (marks_[bit / 64] >> bit % 64 & 1) != 0;
  }

  void look_at_mapping(const files::Mapping& mapping) {
    // Memory of devices may change when it is read.
    const bool device = mapping.shared && mapping.name[0] == '/';
    if (!mapping.readable || !mapping.writable || device) return;
    const bool own_stack = stack_ >= mapping.begin && stack_ < mapping.end;
    // Untouched, a file's page holds what the file does, and a shared one what others wrote.
    is_private_ = !mapping.shared && (mapping.name[0] == 0 || mapping.name[0] == '[');
    look_around({own_stack ? stack_ : mapping.begin, mapping.end}, 0);
  }

  // Looks at a range without what loft's own tables take of it: they name objects, and are none of
  // the program's memory. A mapping of the program's may be one with theirs.
  void look_around(Words range, size_t from) {
    const Words own[] = {
        {window.heap.base, window.heap.committed},
        {window.pagemap.base, window.pagemap.committed},
        {window.metadata.base, window.metadata.committed},
        range_of(marks_, mark_bytes()),
        range_of(found_, kMostFound * sizeof(ObjectRange)),
        range_of(words_, kCopied),
    };
    for (size_t i = from; i < sizeof(own) / sizeof(*own); ++i) {
      if (own[i].begin >= range.end || own[i].end <= range.begin) continue;
      if (own[i].begin > range.begin) look_around({range.begin, own[i].begin}, i + 1);
      if (own[i].end < range.end) look_around({own[i].end, range.end}, i + 1);
      return;
    }
    is_private_ ? look_at_touched(range) : look_at(range);
    follow();
  }

  static Words range_of(const void* at, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(at);
    return {begin, begin + bytes};
  }

  // Of a reservation, what was ever written. To ask for less than is copied at once does not pay.
  void look_at_touched(Words range) {
    if (range.end - range.begin <= kCopied) return look_at(range);
    touched_.begin(range.begin, range.end);
    while (range.begin < range.end) {
      const files::Touched::Range part = touched_.next();
      passed_over_ += part.begin - range.begin;
      look_at({part.begin, part.end});
      range.begin = part.end;
    }
  }

  // Other threads may free the memory, and the system may have it back: only copies are read.
  void look_at(Words range) {
    range.begin = round_up(range.begin, sizeof(uintptr_t));
    while (range.begin < range.end) {
      const size_t wanted = least(range.end - range.begin, kCopied);
      const size_t copied = files::copy_if_there(words_, range.begin, wanted);
      copied_ += copied;
      for (size_t i = 0; i < copied / sizeof(uintptr_t); ++i) {
        const uintptr_t word = words_[i];
        if (word - base_ < end_ - base_) look_at_pointer(word);
      }
      // Past a page that is not there.
      range.begin += copied == wanted ? wanted : round_down(copied, 4096) + 4096;
    }
  }

  void look_at_pointer(uintptr_t word) {
    const ObjectRange object = object_of(reinterpret_cast<const void*>(word));
    const auto start = reinterpret_cast<uintptr_t>(object.start);
    // The object may be changing hands.
    if (start < base_ || start > word || object.size > end_ - start) return;
    if (start + object.size <= word || is_marked(start)) return;
    const size_t bit = (start - base_) / kAlignment;
    marks_[bit / 64] |= uint64_t{1} << bit % 64;
    if (count_ == kMostFound) {
      overflowed_ = true;
    } else {
      found_[count_++] = object;
    }
  }

  void follow() {
    while (count_ != 0) {
      const ObjectRange object = found_[--count_];
      const auto start = reinterpret_cast<uintptr_t>(object.start);
      look_at_touched({start, start + object.size});
    }
  }

  void look_at_marked() {
    for (size_t word = 0; word < mark_bytes() / 8; ++word) {
      for (uint64_t left = marks_[word]; left != 0; left &= left - 1) {
        const uintptr_t start = base_ + (word * 64 + lowest_bit(left)) * kAlignment;
        const ObjectRange object = object_of(reinterpret_cast<const void*>(start));
        if (object.size > end_ - start) continue;
        look_at_touched({start, start + object.size});
        follow();
      }
    }
  }

  const uintptr_t stack_;
  const uintptr_t base_;
  const uintptr_t end_;
  uint64_t* marks_;     // a bit for each place where an object may start
  ObjectRange* found_;  // marked, and not yet looked at
  uintptr_t* words_;
  size_t count_ = 0;
  size_t copied_ = 0;
  size_t passed_over_ = 0;
  files::Touched touched_;
  bool is_private_ = false;  // the mapping that is looked at
  bool overflowed_ = false;
};

}  // namespace

bool search(LookedAt* looked_at) {
  if (span::used_bytes() == 0) return false;
  // What registers hold is stored in this frame, below its address.
  constexpr size_t kFrame = 512;
  __builtin_unwind_init();
  Search one(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kFrame);
  const bool done = one.run();
  if (looked_at != nullptr) *looked_at = one.looked_at();
  return done;
}

}  // namespace loft::leaks
