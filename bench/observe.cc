// Runs a program and says what it has cost the system, without a clock: its system calls, the
// faults that it took, and how much anonymous memory it had at most and at its end.
//
//   observe --preload=LIBRARY[:LIBRARY] [--library=NAME] [--end-at=FAULT] -- PROGRAM [ARGUMENT ...]
//
// Source: bench/ledger.toml. What malloc has falls by few system calls alone (munmap, madvise,
// mremap, brk, a mmap in the place of another mapping, and the end): before each of these the page
// tables are asked, which is exact, unlike VmHWM, that the system reckons in batches. malloc's are
// the anonymous mappings but for the stack and for data that libraries have behind their files. A
// fault is the software event page-faults: a page that was populated ahead has none. --library=NAME
// also says how much is resident of the files whose names begin so. The program's children and the
// threads that it starts go their own way: it should have none. Of one that has, the system's own
// account is whole: its minor faults, and the most that was resident, of all and not of malloc.
//
// A program keeps what it had at its peak, or most of it, often to its end. So the fault is told
// after which all but a hundredth of that was resident for the first time. --end-at ends another
// run there: it says what was resident, and a signal tells bench/still.cc to write the allocator's
// own statistics.
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <map>

#include "traced.h"

namespace {

// Of the addresses of faults; it is emptied at each system call.
constexpr size_t kRingPages = 64;
// Data of a library that no file has follows its mapping. malloc's own mappings are longer. Those
// of the loader, such as the first thread's block, lie anywhere; malloc has none as short.
constexpr uint64_t kLongestData = 2 << 20;
constexpr uint64_t kLeastOfMalloc = 64 << 10;

// What is resident of a process.
struct Resident {
  uint64_t all = 0;
  uint64_t anonymous = 0;
  uint64_t of_malloc = 0;
  uint64_t of_library = 0;       // pages of its file
  uint64_t data_of_library = 0;  // its data, which no file has, or not any more
};

// Whether a mapping is one of malloc's, of one after the other.
class Sorter {
 public:
  bool is_of_malloc(const bench::Mapping& mapping) {
    if (mapping.name == "[heap]") return true;
    const uint64_t length = mapping.end - mapping.start;
    const bool is_data = mapping.start == end_of_other_ && length <= kLongestData;
    if (mapping.name.empty() && !is_data && length >= kLeastOfMalloc) return true;
    if (!mapping.shared) end_of_other_ = mapping.end;
    return false;
  }

 private:
  uint64_t end_of_other_ = 0;
};

Resident resident_of(pid_t pid, const std::string& library) {
  FILE* smaps = std::fopen(bench::proc_path(pid, "smaps").c_str(), "re");
  if (smaps == nullptr) bench::fail("cannot read what is resident");
  Resident sum;
  Sorter sorter;
  bool of_malloc = false;
  bool of_library = false;
  uint64_t end_of_library = 0;
  char line[4352];
  while (std::fgets(line, sizeof line, smaps) != nullptr) {
    bench::Mapping mapping;
    uint64_t kib;
    if (bench::read_mapping(line, mapping)) {
      of_malloc = sorter.is_of_malloc(mapping);
      const std::string file = mapping.name.substr(mapping.name.rfind('/') + 1);
      of_library = !library.empty() && file.compare(0, library.size(), library) == 0;
      // Data that begin as zeros follow the file's.
      of_library |= file.empty() && !of_malloc && mapping.start == end_of_library;
      if (of_library) end_of_library = mapping.end;
    } else if (std::sscanf(line, "Rss: %" SCNu64, &kib) == 1) {
      sum.all += kib << 10;
      sum.of_library += of_library ? kib << 10 : 0;
    } else if (std::sscanf(line, "Anonymous: %" SCNu64, &kib) == 1) {
      sum.anonymous += kib << 10;
      sum.of_malloc += of_malloc ? kib << 10 : 0;
      sum.of_library -= of_library ? kib << 10 : 0;
      sum.data_of_library += of_library ? kib << 10 : 0;
    }
  }
  std::fclose(smaps);
  return sum;
}

// The addresses of the faults that a process takes.
class Faults {
 public:
  // With a signal at the fault `end_at`, instead of the addresses, if that is not 0.
  Faults(pid_t pid, uint64_t end_at) {
    perf_event_attr wanted{};
    wanted.size = sizeof wanted;
    wanted.type = PERF_TYPE_SOFTWARE;
    wanted.config = PERF_COUNT_SW_PAGE_FAULTS;
    wanted.sample_period = end_at == 0 ? 1 : end_at;
    wanted.disabled = end_at != 0;
    wanted.sample_type = PERF_SAMPLE_ADDR;
    file_ =
        static_cast<int>(syscall(SYS_perf_event_open, &wanted, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
    if (file_ < 0) return;
    if (end_at != 0) {
      if (fcntl(file_, F_SETOWN, pid) != 0 || fcntl(file_, F_SETSIG, SIGRTMAX) != 0 ||
          fcntl(file_, F_SETFL, O_ASYNC) != 0 || ioctl(file_, PERF_EVENT_IOC_REFRESH, 1) != 0) {
        bench::fail("the program cannot be ended at a fault");
      }
      return;
    }
    void* p = mmap(nullptr, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (p == MAP_FAILED) bench::fail("no room for the faults' addresses (perf_event_mlock_kb)");
    head_ = static_cast<perf_event_mmap_page*>(p);
    ring_ = static_cast<const char*>(p) + head_->data_offset;
  }
  bool counts() const { return head_ != nullptr; }

  void collect() {
    if (head_ == nullptr) return;
    const uint64_t end = __atomic_load_n(&head_->data_head, __ATOMIC_ACQUIRE);
    while (head_->data_tail != end) {
      perf_event_header header;
      copy(&header, head_->data_tail, sizeof header);
      if (header.type == PERF_RECORD_LOST) bench::fail("faults were lost");
      uint64_t address;
      copy(&address, head_->data_tail + sizeof header, sizeof address);
      if (header.type == PERF_RECORD_SAMPLE) addresses.push_back(address);
      __atomic_store_n(&head_->data_tail, head_->data_tail + header.size, __ATOMIC_RELEASE);
    }
  }
  std::vector<uint64_t> addresses{};

 private:
  static size_t ring_bytes() {
    return (kRingPages + 1) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  }
  void copy(void* to, uint64_t from, size_t bytes) const {
    for (size_t i = 0; i < bytes; i++) {
      static_cast<char*>(to)[i] = ring_[(from + i) % head_->data_size];
    }
  }
  int file_ = -1;
  perf_event_mmap_page* head_ = nullptr;
  const char* ring_ = nullptr;
};

class Observer {
 public:
  Observer(pid_t pid, std::string library, uint64_t end_at)
      : pid_(pid), library_(std::move(library)), faults_(pid, end_at) {
    constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, pid_, nullptr, kOptions) != 0) bench::fail("ptrace fails");
  }

  void run() {
    bool entering = true;
    int signal = 0;
    for (;;) {
      if (ptrace(PTRACE_SYSCALL, pid_, nullptr, signal) != 0) bench::fail("cannot resume");
      int status;
      rusage usage;
      if (wait4(pid_, &status, 0, &usage) != pid_) bench::fail("cannot wait for the program");
      if (!WIFSTOPPED(status)) return finish(status, usage);
      signal = WSTOPSIG(status);
      if (signal == SIGRTMAX) end();
      if (signal != (SIGTRAP | 0x80)) continue;
      signal = 0;
      faults_.collect();
      if (entering) enter();
      entering = !entering;
    }
  }

 private:
  // Before a call by which memory falls.
  struct Fall {
    uint64_t resident;
    uint64_t faults;
  };

  void enter() {
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0) bench::fail("no registers");
    const uint64_t number = registers.orig_rax;
    calls_[number]++;
    const bool replaces = number == SYS_mmap && (registers.r10 & MAP_FIXED) != 0;
    const bool ends = number == SYS_exit_group;
    if (replaces || ends || number == SYS_munmap || number == SYS_madvise || number == SYS_mremap ||
        number == SYS_brk) {
      last_ = resident_of(pid_, library_);
      peak_ = std::max(peak_, last_.of_malloc);
      falls_.push_back({last_.all, faults_.addresses.size()});
      if (last_.all > most_.all && !ended_) most_ = last_;
    }
    if (ends) {
      Sorter sorter;
      for (const bench::Mapping& each : bench::mappings_of(pid_)) {
        if (!sorter.is_of_malloc(each)) others_.push_back(each);
      }
    }
  }

  // What is resident before the allocator tells it.
  void end() {
    most_ = resident_of(pid_, library_);
    ended_ = true;
  }

  // The first fault after which all but a hundredth of the peak was resident. What a call populates
  // comes without a fault, and several pages of a file come with one: then it is a little less.
  uint64_t fault_at_peak() const {
    const uint64_t enough = most_.all - most_.all / 100;
    uint64_t before = 0;  // faults up to the last call
    for (const Fall& fall : falls_) {
      const uint64_t more = (fall.resident - std::min(enough, fall.resident)) / 4096;
      if (fall.resident >= enough) {
        return std::max(before + 1, fall.faults - std::min(fall.faults, more));
      }
      before = fall.faults;
    }
    return before;
  }

  uint64_t faults_of_malloc() const {
    uint64_t sum = 0;
    for (uint64_t address : faults_.addresses) {
      sum += std::none_of(others_.begin(), others_.end(), [=](const bench::Mapping& each) {
        return address >= each.start && address < each.end;
      });
    }
    return sum;
  }

  void finish(int status, const rusage& usage) {
    faults_.collect();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) bench::fail("the program did not end well");
    uint64_t calls = 0;
    std::string by_number;
    for (const auto& [number, count] : calls_) {
      calls += count;
      by_number += (by_number.empty() ? "\"" : ", \"") + std::to_string(number) +
                   "\": " + std::to_string(count);
    }
    std::printf("{\"bench\": \"observe\", \"system_calls\": %" PRIu64
                ", \"by_number\": {%s}, \"peak\": %" PRIu64 ", \"anonymous\": %" PRIu64
                ", \"minor_faults\": %ld, \"resident_kib\": %ld",
                calls, by_number.c_str(), peak_, last_.anonymous, usage.ru_minflt, usage.ru_maxrss);
    std::printf(", \"resident\": {\"all\": %" PRIu64 ", \"of_malloc\": %" PRIu64
                ", \"of_library\": %" PRIu64 ", \"data_of_library\": %" PRIu64 "}",
                most_.all, most_.of_malloc, most_.of_library, most_.data_of_library);
    if (!library_.empty()) std::printf(", \"library_bytes\": %" PRIu64, last_.of_library);
    if (faults_.counts()) {
      std::printf(", \"faults\": %zu, \"malloc_faults\": %" PRIu64 ", \"fault_at_peak\": %" PRIu64,
                  faults_.addresses.size(), faults_of_malloc(), fault_at_peak());
    }
    std::puts("}");
  }

  pid_t pid_;
  std::string library_;
  Faults faults_;
  std::map<uint64_t, uint64_t> calls_{};
  uint64_t peak_ = 0;
  std::vector<Fall> falls_{};
  bool ended_ = false;  // by --end-at
  Resident last_{};
  Resident most_{};
  std::vector<bench::Mapping> others_{};
};

}  // namespace

int main(int argc, char** argv) {
  char** behind = std::find_if(argv, argv + argc,
                               [](const char* word) { return std::strcmp(word, "--") == 0; });
  if (argv + argc - behind < 2) bench::fail("no program is named");
  bench::Arguments arguments(static_cast<int>(behind - argv), argv);
  const std::string preload = arguments.word("preload", "");
  const std::string library = arguments.word("library", "");
  const uint64_t end_at = arguments.number("end-at", 0);
  arguments.finish();
  bench::pin(bench::allowed_cpus().front());
  const std::vector<std::string> command(behind + 1, argv + argc);
  Observer observer(bench::start_traced(command, preload.empty() ? nullptr : preload.c_str()),
                    library, end_at);
  // What the program prints is not this one's result.
  observer.run();
}
