#include "inspect/leaks.h"

#include "base/bits.h"
#include "base/keep.h"
#include "files/mappings.h"
#include "inspect/memory.h"
#include "inspect/touched.h"

namespace loft::inspect {

namespace {

// Too long for a stack.
class Search {
 public:
  // `stack`: an address in the frame of the caller; what lies below it in its stack is dead.
  Search(const Objects* objects, uintptr_t stack)
      : objects_(*objects), stack_(stack), base_(objects->all.begin), end_(objects->all.end) {
    marks_ = static_cast<uint64_t*>(borrow(mark_bytes()));
  }
  ~Search() { give_back(marks_, mark_bytes()); }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  bool run() {
    if (marks_ == nullptr) return false;
    files::Mapping mapping;
    while (mappings_.next(&mapping)) look_at_mapping(mapping);
    if (looked_at.read == 0) return false;
    // What did not fit was marked and forgotten: all marked objects are looked at once more.
    while (overflowed_) {
      overflowed_ = false;
      look_at_marked();
    }
    objects_.count_lost(is_lost, this);
    return true;
  }

  LookedAt looked_at = {};

 private:
  static constexpr size_t kMostFound = 1 << 18;
  static constexpr size_t kCopied = 64 * 1024;

  size_t mark_bytes() const {
    return round_up(((end_ - base_) >> objects_.alignment_log) / 8 + 8, 8);
  }

  static bool is_lost(void* self, const void* p) {
    const auto& search = *static_cast<const Search*>(self);
    const auto at = reinterpret_cast<uintptr_t>(p);
    return at >= search.base_ && at < search.end_ && !search.is_marked(at);
  }

  bool is_marked(uintptr_t object) const {
    const size_t bit = (object - base_) >> objects_.alignment_log;
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
  void look_around(AddressRange range, size_t from) {
    const auto here = reinterpret_cast<uintptr_t>(this);
    const auto marks = reinterpret_cast<uintptr_t>(marks_);
    const AddressRange own[] = {objects_.own[0],
                                objects_.own[1],
                                objects_.own[2],
                                {here, here + sizeof(*this)},
                                {marks, marks + mark_bytes()}};
    for (size_t i = from; i < sizeof(own) / sizeof(*own); ++i) {
      if (own[i].begin >= range.end || own[i].end <= range.begin) continue;
      if (own[i].begin > range.begin) look_around({range.begin, own[i].begin}, i + 1);
      if (own[i].end < range.end) look_around({own[i].end, range.end}, i + 1);
      return;
    }
    is_private_ ? look_at_touched(range) : look_at(range);
    follow();
  }

  // Of a reservation, what was ever written. To ask for less than is copied at once does not pay.
  void look_at_touched(AddressRange range) {
    if (range.end - range.begin <= kCopied) return look_at(range);
    touched_.begin(range.begin, range.end);
    while (range.begin < range.end) {
      const Touched::Range part = touched_.next();
      looked_at.passed_over += part.begin - range.begin;
      look_at({part.begin, part.end});
      range.begin = part.end;
    }
  }

  // Other threads may free the memory, and the system may have it back: only copies are read.
  void look_at(AddressRange range) {
    range.begin = round_up(range.begin, sizeof(uintptr_t));
    while (range.begin < range.end) {
      const size_t wanted = least(range.end - range.begin, kCopied);
      const size_t copied = copy_if_there(words_, range.begin, wanted);
      looked_at.read += copied;
      for (size_t i = 0; i < copied / sizeof(uintptr_t); ++i) {
        const uintptr_t word = words_[i];
        if (word - base_ < end_ - base_) look_at_pointer(word);
      }
      // Past a page that is not there.
      range.begin += copied == wanted ? wanted : round_down(copied, 4096) + 4096;
    }
  }

  void look_at_pointer(uintptr_t word) {
    const AddressRange object = objects_.around(word);
    // The object may be changing hands.
    if (object.begin < base_ || object.begin > word || object.end > end_) return;
    if (object.end <= word || is_marked(object.begin)) return;
    const size_t bit = (object.begin - base_) >> objects_.alignment_log;
    marks_[bit / 64] |= uint64_t{1} << bit % 64;
    if (count_ == kMostFound) {
      overflowed_ = true;
    } else {
      found_[count_++] = object;
    }
  }

  void follow() {
    while (count_ != 0) look_at_touched(found_[--count_]);
  }

  void look_at_marked() {
    for (size_t word = 0; word < mark_bytes() / 8; ++word) {
      for (uint64_t left = marks_[word]; left != 0; left &= left - 1) {
        const size_t bit = word * 64 + lowest_bit(left);
        const AddressRange object = objects_.around(base_ + (bit << objects_.alignment_log));
        if (object.begin < base_ || object.end > end_) continue;
        look_at_touched(object);
        follow();
      }
    }
  }

  const Objects& objects_;
  const uintptr_t stack_;
  const uintptr_t base_;
  const uintptr_t end_;
  uint64_t* marks_;  // a bit for each place where an object may start
  size_t count_ = 0;
  bool is_private_ = false;  // the mapping that is looked at
  bool overflowed_ = false;
  Touched touched_;
  files::Mappings mappings_;
  uintptr_t words_[kCopied / sizeof(uintptr_t)];
  AddressRange found_[kMostFound];  // marked, and not yet looked at
};

}  // namespace

bool search_leaks(const Objects& objects, LookedAt* looked_at) {
  const KeepErrno keep;
  // What registers hold is stored in this frame, below its address.
  constexpr size_t kFrame = 512;
  __builtin_unwind_init();
  const Borrowed<Search> search(&objects,
                                reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kFrame);
  if (!search.is_there()) return false;
  const bool done = search->run();
  *looked_at = search->looked_at;
  return done;
}

}  // namespace loft::inspect
