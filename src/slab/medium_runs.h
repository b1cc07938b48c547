// The medium runs of one heap, under its lock. An object comes from the shortest gap of all runs
// that suffices: emptier runs then become empty.
//
// Gaps keep their memory for a while. A round, some ticks after the last, purges what was free all
// that time, and gives back runs that were empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/list.h"
#include "os/lock.h"
#include "slab/medium_run.h"
#include "space/span_bins.h"
#include "space/unused.h"

namespace loft {

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
  // `empty` only one without objects. False if there is none. *moved: the bytes of its objects.
  // Under the locks of both heaps.
  bool take_over(MediumRuns& other, unsigned pages, bool empty, HeapId owner, size_t* moved);

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
  void see_less() { told_.see_less(dirty_pages() * os::page_size()); }

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
