#include "hardened/guarded_samples.h"

#include <signal.h>

#include <new>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"
#include "base/options.h"
#include "files/inspect.h"
#include "files/misuse.h"
#include "files/output.h"
#include "hardened/cell.h"
#include "hardened/checks.h"
#include "hardened/guarded.h"
#include "hardened/tag.h"
#include "heap/large.h"
#include "os/access.h"
#include "os/fault.h"
#include "os/os.h"

namespace loft::hardened {

namespace {

constexpr size_t kMostFrames = 16;

struct KeptStack {
  uint64_t thread;
  size_t depth;
  uintptr_t frames[kMostFrames];

  void capture() {
    thread = static_cast<uint64_t>(os::thread_number());
    depth = inspect::capture(frames, kMostFrames);
  }
};

// kBusy: one thread writes it. Release when it is left for another state, acquire where it is
// taken: the record is whole. It outlives the sample, until it is taken for another one.
enum class SampleState : uint32_t { kUnused, kBusy, kLive, kFreed };

struct SampleRecord {
  Atomic<SampleState> state;
  uint64_t number;  // of samples, in the order in which they were made
  uintptr_t start;
  size_t asked;
  large::Around around;
  KeptStack made;
  KeptStack freed;
};

constexpr unsigned kRecords = 512;
constexpr unsigned kMostLive = 256;
constinit SampleRecord* records =
    nullptr;                         // kRecords of them; written once, before the first sample
constinit Atomic<uint64_t> next{0};  // relaxed, as `live`: where the search begins
constinit Atomic<unsigned> live{0};  // a bound, which may be missed by a few
// Who is first: relaxed, it says nothing else. A word, because RISC-V exchanges nothing shorter.
constinit Atomic<uint32_t> catches{0};

SampleRecord* take_record() {
  for (unsigned tries = 0; tries < kRecords; ++tries) {
    const uint64_t number = next.fetch_add(1, memory_order_relaxed);
    SampleRecord* const record = &records[number % kRecords];
    SampleState state = record->state.load(memory_order_relaxed);
    if (state != SampleState::kUnused && state != SampleState::kFreed) continue;
    if (record->state.compare_exchange_strong(state, SampleState::kBusy, memory_order_acquire,
                                              memory_order_relaxed)) {
      record->number = number;
      return record;
    }
  }
  return nullptr;
}

// The record whose pages have the address: the newest, because addresses come again.
const SampleRecord* find(uintptr_t address) {
  const SampleRecord* found = nullptr;
  for (unsigned i = 0; records != nullptr && i < kRecords; ++i) {
    const SampleRecord* const record = &records[i];
    const SampleState state = record->state.load(memory_order_acquire);
    if (state != SampleState::kLive && state != SampleState::kFreed) continue;
    if (address - record->around.base >= record->around.end - record->around.base) continue;
    if (found == nullptr || record->number > found->number) found = record;
  }
  return found;
}

// Written as part of a line.
Text& operator<<(Text& line, const SampleRecord& record) {
  return line << "an object of " << uint64_t{record.asked} << " bytes at "
              << reinterpret_cast<const void*>(record.start);
}

const SampleRecord* record_of(const Large& sample) { return &records[sample.record]; }

// The stacks of a report: of the call that finds it, then the object's.
void tell(const SampleRecord& record, const Text& line) {
  files::Stack stacks[2] = {
      {"allocated", record.made.thread, record.made.frames, record.made.depth},
      {"freed", record.freed.thread, record.freed.frames, record.freed.depth}};
  const bool was_freed = record.state.load(memory_order_acquire) == SampleState::kFreed;
  files::tell_with_stacks(line, stacks, was_freed ? 2 : 1);
}

[[noreturn]] LOFT_COLD void stop(const SampleRecord& record, const Text& line) {
  tell(record, line);
  os::abort_process();
}

void check_page(const char* call, const Large& sample) {
  const SampleRecord& record = *record_of(sample);
  auto* const start = reinterpret_cast<unsigned char*>(sample.start());
  auto* const end = reinterpret_cast<unsigned char*>(sample.base + sample.bytes);
  const size_t behind = sample.bytes - sample.shift - sample.asked;
  if (LOFT_UNLIKELY(!is_fence_whole(end, behind, fence_of(record.start)))) {
    stop(record,
         Text() << call << ": a write beyond the object has damaged what lies behind " << record);
  }
  if (LOFT_UNLIKELY(!is_zero(start - sample.shift, sample.shift))) {
    stop(record, Text() << call << ": a write before the object has damaged what lies in front of "
                        << record);
  }
}

// Whether nothing is closed there but by the program: a sample's own page, whose protection it has
// changed, or what has come to lie there since.
bool is_not_closed(const SampleRecord& record, bool was_freed, uintptr_t address) {
  if (was_freed) {
    const Entry entry = large::entry_around(reinterpret_cast<const void*>(address));
    return entry.is_slab() || entry.bin() == kMedium || entry.bin() == kLarge ||
           entry.bin() == kGuest;
  }
  const size_t page = os::page_size();
  const uintptr_t base = round_down(record.start, page);
  const uintptr_t end = round_up(record.start + most<size_t>(record.asked, 1), page);
  return address - base < end - base;
}

// Written as part of a line: where an address lies.
Text& tell_where(Text& line, const SampleRecord& record, uintptr_t address, bool was_freed) {
  if (address < record.start) {
    line << uint64_t{record.start - address} << " bytes in front of ";
  } else if (was_freed && address - record.start < record.asked) {
    line << uint64_t{address - record.start} << " bytes into ";
  } else {
    line << uint64_t{address - record.start - record.asked} << " bytes behind the end of ";
  }
  return line << record;
}

enum class Access : uint8_t { kUnknown, kRead, kWrite };
enum class FaultTold : uint8_t { kNothing, kIt, kAndOpened };

// For a fault at an address: tells what was there, unless it has nothing to do with what is closed
// around samples. `opens`: makes the page accessible, so that the program can go on, if that is
// possible.
FaultTold tell_of_fault(uintptr_t address, Access access, bool opens) {
  const SampleRecord* const record = find(address);
  if (record == nullptr) return FaultTold::kNothing;
  const bool was_freed = record->state.load(memory_order_acquire) == SampleState::kFreed;
  if (is_not_closed(*record, was_freed, address)) return FaultTold::kNothing;
  const char* const verb = access == Access::kRead    ? "read"
                           : access == Access::kWrite ? "write"
                                                      : "use";
  const char* const when = was_freed                 ? " after free"
                           : address < record->start ? " before an object"
                                                     : " beyond an object";
  Text line;
  line << verb << when << ": at " << reinterpret_cast<const void*>(address) << ", ";
  tell(*record, tell_where(line, *record, address, was_freed));
  // Addresses that are no more kept for a freed sample are those of free memory.
  if (!opens || (was_freed && !large::is_kept_closed(address))) return FaultTold::kIt;
  const size_t page = os::page_size();
  const bool opened = os::commit(reinterpret_cast<void*>(round_down(address, page)), page);
  return opened ? FaultTold::kAndOpened : FaultTold::kIt;
}

// ---- The handler of SIGSEGV and SIGBUS ----
//
// A fault that belongs to no sample goes to whoever had the signal before. Signals that the program
// takes for itself later are the program's.

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
constexpr unsigned kCount = sizeof kSignals / sizeof kSignals[0];
constinit struct sigaction former[kCount]{};  // written once, before the handlers are there

unsigned index_of(int signal) { return signal == kSignals[0] ? 0 : 1; }

// The instruction is tried again when the handler returns, and then the former one gets the signal.
void give_up(int signal) { sigaction(signal, &former[index_of(signal)], nullptr); }

bool is_a_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& action = former[index_of(signal)];
  if ((static_cast<unsigned>(action.sa_flags) & SA_RESETHAND) != 0 && is_a_handler(action)) {
    struct sigaction none = {};
    sigaction(signal, &none, nullptr);
  }
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  // A fault cannot be ignored: the system takes the default.
  if (!is_a_handler(action)) {
    give_up(signal);
    // One that was sent, as by kill, does not come again by itself.
    if (info->si_code <= 0) raise(signal);
    return;
  }
  action.sa_handler(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const KeepErrno keep;
  const bool goes_on = get(options.misuse) == kMisuseContinue;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // A page that is opened is not one of code: a call would come here again.
  const bool calls = os::is_call(context, address);
  const auto access = calls                     ? Access::kUnknown
                      : os::wrote(context) == 0 ? Access::kRead
                      : os::wrote(context) == 1 ? Access::kWrite
                                                : Access::kUnknown;
  const FaultTold told =
      info->si_code <= 0 ? FaultTold::kNothing : tell_of_fault(address, access, goes_on && !calls);
  if (told == FaultTold::kNothing) return pass_on(signal, info, context);
  if (told != FaultTold::kAndOpened) give_up(signal);
}

void catch_faults() {
  const KeepErrno keep;
  for (unsigned i = 0; i < kCount; ++i) {
    if (sigaction(kSignals[i], nullptr, &former[i]) != 0) continue;
    // A handler of the program's runs as it has asked for: on that stack, and with these signals.
    constexpr int kKept = SA_ONSTACK | SA_NODEFER | SA_RESTART;
    struct sigaction ours = {};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    if (is_a_handler(former[i])) {
      ours.sa_flags = SA_SIGINFO | (former[i].sa_flags & kKept);
      ours.sa_mask = former[i].sa_mask;
    }
    ours.sa_sigaction = on_fault;
    sigaction(kSignals[i], &ours, nullptr);
  }
}

}  // namespace

bool begin_samples() {
  records = static_cast<SampleRecord*>(files::borrow(kRecords * sizeof(SampleRecord)));
  if (records == nullptr) return false;
  inspect::open();
  return true;
}

void* make_sample(size_t asked, size_t alignment, Maker maker) {
  if (live.load(memory_order_relaxed) >= kMostLive || alignment > os::page_size()) return nullptr;
  // Not earlier: a runtime that tells of stacks that overflow, as Rust's does, takes the signal
  // only where nobody has it.
  if (LOFT_UNLIKELY(catches.load(memory_order_relaxed) == 0) &&
      catches.exchange(1, memory_order_relaxed) == 0) {
    catch_faults();
  }
  SampleRecord* const record = take_record();
  if (record == nullptr) return nullptr;
  const auto index = static_cast<uint16_t>(record - records);
  // By turns: what goes beyond the object meets a guard at once, or what goes before it.
  const auto at = index % 4 == 0 ? large::At::kStart : large::At::kEnd;
  void* const p = large::allocate_guarded(asked, alignment, at);
  if (LOFT_UNLIKELY(p == nullptr)) {
    record->state.store(SampleState::kUnused, memory_order_release);
    return nullptr;
  }
  Large* const sample = large::at(pagemap.of(p));
  sample->maker = static_cast<uint8_t>(maker);
  sample->record = index;
  record->start = reinterpret_cast<uintptr_t>(p);
  record->asked = asked;
  record->around = large::around(*sample);
  record->freed.depth = 0;
  raise_fence(reinterpret_cast<unsigned char*>(sample->base + sample->bytes),
              sample->bytes - sample->shift - asked, fence_of(record->start));
  record->made.capture();
  live.fetch_add(1, memory_order_relaxed);
  record->state.store(SampleState::kLive, memory_order_release);
  return p;
}

bool resize_in_pages(const char* call, Large* sample, size_t asked) {
  const size_t room = sample->bytes - sample->shift;
  if (asked > room) return false;
  check_page(call, *sample);
  SampleRecord& record = records[sample->record];
  auto* const end = reinterpret_cast<unsigned char*>(sample->base + sample->bytes);
  clear_fence(end, room - sample->asked);
  sample->asked = asked;
  record.asked = asked;
  raise_fence(end, room - asked, fence_of(record.start));
  return true;
}

void end_sample(const char* call, Maker maker, Large* sample) {
  check_page(call, *sample);
  const auto made_by = static_cast<Maker>(sample->maker);
  SampleRecord* const record = &records[sample->record];
  if (LOFT_UNLIKELY(made_by != maker)) {
    stop(*record, Text() << call << " of " << *record << ", which " << name_of(made_by) << " made");
  }
  // Acquire, as where a record is taken. Of two threads that free one object, one finds another
  // state.
  SampleState state = SampleState::kLive;
  if (LOFT_UNLIKELY(!record->state.compare_exchange_strong(
          state, SampleState::kBusy, memory_order_acquire, memory_order_relaxed))) {
    stop(*record, Text() << "double free of " << *record << ", by two threads at once");
  }
  record->freed.capture();
  live.fetch_sub(1, memory_order_relaxed);
  record->state.store(SampleState::kFreed, memory_order_release);
}

void report_if_freed(const char* call, const void* p) {
  const SampleRecord* const record = find(reinterpret_cast<uintptr_t>(p));
  if (record == nullptr || record->state.load(memory_order_acquire) != SampleState::kFreed) return;
  if (record->start != reinterpret_cast<uintptr_t>(p)) return;
  const bool twice = frees(call);
  stop(*record, Text() << (twice ? "double free" : call) << " of " << *record
                       << (twice ? "" : ", which was freed"));
}

}  // namespace loft::hardened
