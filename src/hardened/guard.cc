#include "hardened/modes.h"

#include "base/peek.h"
#include "base/sealed.h"
#include "cache/bins.h"
#include "cache/object.h"
#include "cache/percpu.h"
#include "hardened/checks.h"
#include "hardened/guarded.h"
#include "hardened/guarded_samples.h"
#include "hardened/secrets.h"
#include "heap/registry.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/restartable.h"
#include "profile/progress.h"
#include "profile/samples.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "sampling/mark.h"
#include "sampling/meter.h"
#include "sampling/sampling.h"
#include "slab/medium_runs.h"
#include "space/span.h"

namespace loft::guard {

namespace {

// That of an address outside of the heap leads to nothing.
LOFT_ALWAYS_INLINE Entry entry_at(const void* p) {
  const uint64_t position = pagemap.position(p);
  return LOFT_LIKELY(pagemap.limit.contains(position)) ? pagemap.at_position(position) : Entry{};
}

bool is_nothing(Entry entry) {
  return !entry.is_slab() && entry.bin() != kMedium && entry.bin() != kLarge &&
         entry.bin() != kGuest;
}

bool is_sample(Entry entry) { return entry.bin() == kLarge && large::at(entry)->guarded; }

[[noreturn]] LOFT_COLD void report_marked(const char* call, const void* p) {
  const bool twice = hardened::frees(call);
  const Text line = Text() << (twice ? "double free" : call)
                           << (twice ? " of" : " of a freed object");
  slab::report_misuse(line.data(), p, slab::at(pagemap.of(p)));
}

// Returns where a program's own operators may have said anything.
LOFT_COLD void report_size(const Freed& freed, const void* p, size_t bytes) {
  if (freed.by_delete && hardened::has_own_operators()) return;
  os::fault(Text() << hardened::name_of(freed) << " of " << p << " as an object of "
                   << uint64_t{freed.size} << " bytes: its place has " << uint64_t{bytes});
}

// The class of an object whose size and alignment are known. kSizeClasses: it lies in no slab.
SizeClass class_of_freed(const Freed& freed) {
  const size_t alignment = size_t{1} << freed.alignment_log;
  if (freed.size > kSmallMax || alignment > kSmallMax) return kSizeClasses;
  return class_of(round_up(most<size_t>(freed.size, 1), alignment));
}

// Whether that many bytes lie in a cell of the class. Objects of operator new with an alignment
// may lie in any larger one, and those that realloc has left where they were in one twice as large.
bool fits(const Freed& freed, SizeClass c) {
  if (LOFT_LIKELY(!freed.has_size)) return true;
  if (freed.size > class_size(c)) return false;
  if (freed.by_delete && freed.maker != Maker::kNew && freed.maker != Maker::kNewArray) return true;
  return class_of_freed(freed) == c || (!freed.by_delete && stays(class_size(c), freed.size));
}

// Whether the call names what was asked for. An object of no bytes may have been given one.
bool is_size(const Freed& freed, size_t asked) {
  return freed.size == asked || (freed.size == 0 && asked == 1);
}

// Of a long object it is known what was asked for, unless it has very many bytes more.
void check_long(const Freed& freed, const void* p, Entry entry) {
  if (LOFT_LIKELY(!freed.has_size)) return;
  if (entry.bin() == kMedium) {
    check_start(hardened::name_of(freed), p, entry);
    const MediumWord::Object object = medium::run_at(entry)->word_at(p).object();
    const bool fits = object.vague ? freed.size <= object.asked : is_size(freed, object.asked);
    if (LOFT_LIKELY(fits) || hardened::has_good_size(freed, object.asked)) return;
    report_size(freed, p, object.vague ? object.pages * kRunPage : object.asked);
  } else if (entry.bin() == kLarge) {
    check_start(hardened::name_of(freed), p, entry);
    const size_t asked = large::at(entry)->asked;
    if (LOFT_LIKELY(is_size(freed, asked)) || hardened::has_good_size(freed, asked)) return;
    report_size(freed, p, asked);
  }
}

void free_sample(Large* sample, const Freed& freed) {
  const auto made_by = static_cast<Maker>(sample->maker);
  Maker maker = freed.maker;
  if (LOFT_UNLIKELY(maker != made_by) && hardened::has_own_operators()) maker = made_by;
  auto* const p = reinterpret_cast<void*>(sample->start());
  if (LOFT_UNLIKELY(freed.has_size && !is_size(freed, sample->asked)) &&
      !hardened::has_good_size(freed, sample->asked)) {
    report_size(freed, p, sample->asked);
  }
  hardened::end_sample(hardened::name_of(freed), maker, sample);
  if (LOFT_UNLIKELY(sample->sampled)) forget_large(sample);
  lifecycle::count_net(-sample->bytes);
  large::release_guarded(sample);
  background::look_after();
}

LOFT_NOINLINE void free_elsewhere(void* p, const Freed& freed) {
  if (p == nullptr) return;
  const Entry entry = entry_at(p);
  if (LOFT_LIKELY(entry.is_slab())) {
    const SizeClass c = class_of_bin(entry.bin());
    check_start(hardened::name_of(freed), p, entry);
    if (LOFT_UNLIKELY(sampling::is_marked(p))) report_marked(hardened::name_of(freed), p);
    if (LOFT_UNLIKELY(!fits(freed, c))) report_size(freed, p, class_size(c));
    ThreadCache* const thread = this_thread();
    if (entry.owner() == thread->owner && LOFT_UNLIKELY(sampling::holds(thread, c, p))) {
      report_bad_free(p);
    }
    sampling::mark(p);
    if (percpu::in_use()) {
      const uint64_t word = entry.word();
      const os::Pushed pushed = os::push_if_owner(p, word);
      if (LOFT_LIKELY(pushed == os::Pushed::kYes)) return;
      if (pushed != os::Pushed::kNo && os::push(p, percpu::kForeignStack)) return;
    }
    return free_ordinary(p);
  }
  if (is_sample(entry)) {
    check_start(hardened::name_of(freed), p, entry);
    return free_sample(large::at(entry), freed);
  }
  if (is_nothing(entry)) hardened::report_if_freed(hardened::name_of(freed), p);
  check_long(freed, p, entry);
  free_metered(p);
}

// A look at the cell: of an object whose size the caller names, or that was not written to since
// it was handed out; or else it is free.
LOFT_NOINLINE void free_with_a_look(void* p, const Freed& freed) {
  const Entry entry = pagemap.of(p);
  if (!entry.is_slab() || sampling::is_marked(p)) return free_elsewhere(p, freed);
  ThreadCache* const thread = this_thread();
  const SizeClass c = class_of_bin(entry.bin());
  if (LOFT_UNLIKELY(!fits(freed, c))) report_size(freed, p, class_size(c));
  if (sampling::may_be_free(p) && LOFT_UNLIKELY(sampling::holds(thread, c, p))) {
    return report_bad_free(p);
  }
  sampling::mark(p);
  thread->bins[c].push(p);
}

// The straight way: the thread's own object, and a bin with room.
LOFT_ALWAYS_INLINE void free_by(void* p, const Freed& freed) {
  const uint64_t position = pagemap.position(p);
  if (LOFT_UNLIKELY(!pagemap.limit.contains(position))) return free_elsewhere(p, freed);
  const Entry entry = pagemap.at_position(position);
  ThreadCache* const thread = this_thread();
  if (LOFT_UNLIKELY(entry.owner() != thread->owner)) return free_elsewhere(p, freed);
  Bin* const bin = thread->bin_at(entry.bin());
  if (LOFT_UNLIKELY(bin->is_full())) return free_elsewhere(p, freed);
  if (LOFT_UNLIKELY(sampling::may_be_free(p) || freed.has_size)) return free_with_a_look(p, freed);
  sampling::mark(p);
  bin->push(p);
}

void free_guarded(void* p) { free_by(p, {}); }
void free_guarded_as(void* p, Freed freed) { free_by(p, freed); }

// What is not in a slab: of a sample the object, of a freed one the report. nullptr: anything else.
Large* sample_at(const char* call, const void* p) {
  const Entry entry = entry_at(p);
  if (is_nothing(entry)) hardened::report_if_freed(call, p);
  if (!is_sample(entry)) return nullptr;
  check_start(call, p, entry);
  return large::at(entry);
}

// The entry of an object in a slab that is not marked; or one that is not a slab's.
LOFT_ALWAYS_INLINE Entry entry_unmarked(const char* call, const void* p) {
  const Entry entry = entry_at(p);
  if (LOFT_UNLIKELY(!entry.is_slab())) return {};
  check_start(call, p, entry);
  if (LOFT_UNLIKELY(sampling::is_marked(p))) report_marked(call, p);
  return entry;
}

LOFT_NOINLINE void* reallocate_elsewhere(void* p, size_t size) {
  const Large* const sample = sample_at("realloc", p);
  if (LOFT_LIKELY(sample == nullptr)) return reallocate_metered(p, size);
  return reallocate_by_copy(p, sample->asked, size);
}

void* reallocate_guarded(void* p, size_t size) {
  const Entry entry = entry_unmarked("realloc", p);
  return LOFT_LIKELY(entry.is_slab()) ? reallocate_small(p, entry, size)
                                      : reallocate_elsewhere(p, size);
}

size_t usable_size_guarded(const char* call, const void* p) {
  const Entry entry = entry_unmarked(call, p);
  if (LOFT_LIKELY(entry.is_slab())) return class_size(class_of_bin(entry.bin()));
  const Large* const sample = sample_at(call, p);
  return sample != nullptr ? sample->asked : usable_size_ordinary(call, p);
}

bool expand_guarded(const char* call, void* p, size_t size) {
  const Entry entry = entry_unmarked(call, p);
  if (LOFT_LIKELY(entry.is_slab())) return stays(class_size(class_of_bin(entry.bin())), size);
  Large* const sample = sample_at(call, p);
  if (LOFT_LIKELY(sample == nullptr)) return expand_metered(call, p, size);
  if (!hardened::resize_in_pages(call, sample, size)) return false;
  if (LOFT_UNLIKELY(sample->sampled)) hardened::resize_sample(p, size);
  return true;
}

size_t size_in_guarded(const void* p, size_t bytes) {
  const Entry entry = pagemap.of(p);
  if (LOFT_LIKELY(entry.bin() != kLarge)) return bytes;
  const Large* const object = large::at(entry);
  return peek(object->guarded) ? least(peek(object->asked), bytes) : bytes;
}

LOFT_SEALED constinit Policies guarded{};

Policies make_policies() {
  Policies made = core_policies;
  for (Policy& row : made.of) {
    sample_in(&row);
    row.refill = refill_sampled;
    row.free = free_guarded;
    row.free_as = free_guarded_as;
    row.reallocate = reallocate_guarded;
    row.usable_size = usable_size_guarded;
    row.expand = expand_guarded;
    row.size_in = size_in_guarded;
  }
  return made;
}

// So much is allocated before the first sample, which takes the signals of faults: what libraries
// and runtimes allocate before they take signals themselves. Not where samples lie closer.
constexpr uint64_t kBeforeSamples = 64 * 1024;

void begin_late() {
  if (profile::mean_bytes() < kBeforeSamples) return;
  profile::room();  // draws
  profile::give_back(kBeforeSamples);
}

}  // namespace

bool begin() {
  if (!span::initialise() || !hardened::make_secrets() || !hardened::begin_samples()) return false;
  const Policies made = make_policies();
  if (!write_sealed(&guarded, &made, sizeof made) || !sample_by(hardened::make_sample) ||
      !use(guarded)) {
    return false;
  }
  registry::key_messages(0);
  os::random_bytes(&sampling::mark_secret, sizeof sampling::mark_secret);
  sampling::is_marking = true;
  span::serve_nobody();
  sample_for_good();
  begin_late();
  return true;
}

}  // namespace loft::guard
