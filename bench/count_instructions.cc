// Counts the instructions of malloc and free one by one, for machines without hardware counters.
//
// Source: the figures of CONTRIBUTING.md are counts of instructions, so that they hold on any
// machine. A child process allocates and frees; this process single-steps it with ptrace. Only
// instructions outside the program itself count, from the first of malloc to its return: the loop,
// the call and the PLT stub are part of the program. Calls and locked instructions are told apart
// by their opcodes. Of a malloc that refills its cache, the questions count, too: the conditional
// jumps that it meets, each once, however often a loop comes by. For a remote free a second,
// untraced thread allocates what the traced one frees.
//
// A step interrupts, and an interruption makes the system abort a restartable sequence
// (owner=core). So before each step the thread's note of the sequence that it is in is cleared:
// then the system lets it go on. Both threads are on one processor, so no free is remote there.
#include "common.h"

#if !defined(__x86_64__)
int main() { bench::fail("only x86-64 is supported"); }
#else

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <set>
#include <unordered_map>

namespace {

constexpr size_t kSizes[] = {16, 64, 128, 512, 4096, 32768};
constexpr int kPairs = 32;
constexpr size_t kRefillSize = 64;
constexpr int kRefillObjects = 3000;  // some of which need a refill
constexpr size_t kRemoteSize = 64;
constexpr int kWarmUpRounds = 20;

void stop_here() { asm volatile("int3" : : : "memory"); }

// The child: every part to be counted stands between two stops.
[[noreturn]] void child(size_t remote_objects) {
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  for (size_t size : kSizes) {
    for (int i = 0; i < 10'000; i++) bench::release(bench::allocate(size));
    stop_here();
    for (int i = 0; i < kPairs; i++) bench::release(bench::allocate(size));
    stop_here();
  }

  // Freed before: the slabs have what is more than the cache holds.
  bench::Table<void*> kept(kRefillObjects);
  for (void*& p : kept) p = bench::allocate(kRefillSize);
  for (void* p : kept) bench::release(p);
  stop_here();
  for (void*& p : kept) p = bench::allocate(kRefillSize);
  stop_here();
  for (void* p : kept) bench::release(p);

  bench::Table<void*> objects(remote_objects);
  std::atomic<int> turn{0};
  std::thread owner([&] {
    for (int round = 0; round <= kWarmUpRounds; round++) {
      while (turn.load(std::memory_order_acquire) != 2 * round) usleep(100);
      for (void*& p : objects) p = bench::allocate(kRemoteSize);
      turn.store(2 * round + 1, std::memory_order_release);
    }
    // Asleep rather than spinning: the thread being stepped needs the CPU.
    while (turn.load(std::memory_order_acquire) >= 0) usleep(1000);
  });
  for (int round = 0; round <= kWarmUpRounds; round++) {
    while (turn.load(std::memory_order_acquire) != 2 * round + 1) std::this_thread::yield();
    if (round == kWarmUpRounds) stop_here();
    for (void* p : objects) bench::release(p);
    if (round == kWarmUpRounds) stop_here();
    turn.store(2 * round + 2, std::memory_order_release);
  }
  turn.store(-1, std::memory_order_release);
  owner.join();
  _exit(0);
}

struct Call {
  uint64_t instructions = 0;
  uint64_t calls = 0;
  uint64_t locked = 0;
  std::set<uint64_t> questions{};  // where they stand
};

// Where the program's own code lies in the child.
struct Text {
  uint64_t start = UINT64_MAX;
  uint64_t end = 0;
  bool holds(uint64_t address) const { return address >= start && address < end; }
};

Text program_text(pid_t pid) {
  char path[64];
  char self[4096];
  std::snprintf(path, sizeof path, "/proc/%d/exe", pid);
  ssize_t length = readlink(path, self, sizeof self - 1);
  if (length <= 0) bench::fail("cannot read %s", path);
  self[length] = '\0';
  std::snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE* maps = std::fopen(path, "r");
  if (maps == nullptr) bench::fail("cannot read %s", path);
  Text text;
  char line[4352];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    uint64_t start;
    uint64_t end;
    char mode[8];
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, mode) == 3 &&
        mode[2] == 'x' && std::strstr(line, self) != nullptr) {
      text.start = std::min(text.start, start);
      text.end = std::max(text.end, end);
    }
  }
  std::fclose(maps);
  return text;
}

struct Kind {
  bool call;
  bool locked;
  bool asks;  // a conditional jump
};

// Rough decoding: prefixes, then the opcode.
Kind classify(const unsigned char* code) {
  bool locked = false;
  size_t i = 0;
  for (; i < 14; i++) {
    unsigned char b = code[i];
    bool prefix = b == 0x66 || b == 0x67 || b == 0xF2 || b == 0xF3 || b == 0x2E || b == 0x36 ||
                  b == 0x3E || b == 0x26 || b == 0x64 || b == 0x65 || b == 0xF0;
    if (!prefix) break;
    locked |= b == 0xF0;
  }
  if ((code[i] & 0xF0) == 0x40) i++;
  unsigned char operands = code[i + 1];
  // xchg with memory locks without saying so.
  locked |= (code[i] == 0x86 || code[i] == 0x87) && operands < 0xC0;
  const bool asks = (code[i] & 0xF0) == 0x70 || (code[i] == 0x0F && (operands & 0xF0) == 0x80);
  return {code[i] == 0xE8 || (code[i] == 0xFF && (operands >> 3 & 7) == 2), locked, asks};
}

class Stepper {
 public:
  explicit Stepper(pid_t pid) : pid_(pid) {
    struct {
      uint64_t area;
      uint32_t size, signature, flags, padding;
    } registered = {};
    constexpr auto kGetConfiguration = static_cast<__ptrace_request>(0x420f);
    if (ptrace(kGetConfiguration, pid_, sizeof registered, &registered) > 0) {
      sequence_ = registered.area + 8;  // rseq_cs
    }
  }

  // Lets the child run to its next stop.
  void run() {
    if (ptrace(PTRACE_CONT, pid_, nullptr, nullptr) != 0) bench::fail("cannot continue the child");
    await();
  }

  // Steps to the next stop; every stay outside the program is one call.
  std::vector<Call> step_to_stop() {
    Text text = program_text(pid_);
    std::vector<Call> calls;
    bool inside = false;
    for (;;) {
      user_regs_struct registers;
      if (ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0)
        bench::fail("cannot read registers");
      uint64_t at = registers.rip;
      if (text.holds(at)) {
        inside = false;
        if ((peek(at) & 0xFF) == 0xCC) {
          run();
          return calls;
        }
      } else {
        if (!inside) calls.emplace_back();
        inside = true;
        Kind kind = kind_at(at);
        calls.back().instructions++;
        calls.back().calls += kind.call;
        calls.back().locked += kind.locked;
        if (kind.asks) calls.back().questions.insert(at);
        forget_sequence();
      }
      if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0)
        bench::fail("cannot step the child");
      await();
    }
  }

 private:
  void await() {
    int status;
    if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status))
      bench::fail("the child ended early");
    if (WSTOPSIG(status) != SIGTRAP) bench::fail("the child got signal %d", WSTOPSIG(status));
  }
  Kind kind_at(uint64_t address) {
    auto [found, fresh] = kinds_.try_emplace(address);
    if (fresh) {
      uint64_t words[2] = {peek(address), peek(address + 8)};
      unsigned char code[16];
      std::memcpy(code, words, sizeof code);
      found->second = classify(code);
    }
    return found->second;
  }
  // All ones where nothing is mapped: the second word of an instruction at the end of a mapping.
  uint64_t peek(uint64_t address) {
    return static_cast<uint64_t>(
        ptrace(PTRACE_PEEKTEXT, pid_, reinterpret_cast<void*>(address), nullptr));
  }
  void forget_sequence() {
    if (sequence_ != 0) ptrace(PTRACE_POKEDATA, pid_, reinterpret_cast<void*>(sequence_), nullptr);
  }
  pid_t pid_;
  uint64_t sequence_ = 0;  // 0: the child has no registration
  std::unordered_map<uint64_t, Kind> kinds_;
};

Call median(std::vector<Call> calls) {
  std::sort(calls.begin(), calls.end(),
            [](const Call& a, const Call& b) { return a.instructions < b.instructions; });
  return calls[calls.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t remote_objects = arguments.number("remote", 4096, 1, 1'000'000);
  arguments.finish();

  // Both processes on one CPU: a step is then a switch, not a wake-up of another CPU.
  bench::pin(bench::allowed_cpus().back());
  pid_t pid = fork();
  if (pid < 0) bench::fail("fork failed");
  if (pid == 0) child(remote_objects);
  int status;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) bench::fail("ptrace is not allowed");
  Stepper stepper(pid);
  std::string json = "{\"bench\": \"count_instructions\", \"pairs\": [";
  char text[256];
  for (size_t size : kSizes) {
    std::vector<Call> both = stepper.step_to_stop();
    if (both.size() != 2 * kPairs) {
      bench::fail("%zu calls seen in %d pairs: malloc or free is part of the program", both.size(),
                  kPairs);
    }
    std::vector<Call> mallocs;
    std::vector<Call> frees;
    for (size_t i = 0; i < both.size(); i++) (i % 2 == 0 ? mallocs : frees).push_back(both[i]);
    const Call fast_malloc = median(mallocs);
    const Call fast_free = median(frees);
    // Those that left the cached path now and then, for a cache refilled or trimmed.
    size_t slow = 0;
    for (const Call& call : mallocs) slow += call.instructions > fast_malloc.instructions;
    for (const Call& call : frees) slow += call.instructions > fast_free.instructions;
    std::snprintf(text, sizeof text,
                  "%s{\"size\": %zu, \"malloc\": %" PRIu64 ", \"free\": %" PRIu64
                  ", \"pair\": %" PRIu64 ", \"calls\": %" PRIu64 ", \"locked\": %" PRIu64
                  ", \"slow\": %zu}",
                  size == kSizes[0] ? "" : ", ", size, fast_malloc.instructions,
                  fast_free.instructions, fast_malloc.instructions + fast_free.instructions,
                  fast_malloc.calls + fast_free.calls, fast_malloc.locked + fast_free.locked, slow);
    json += text;
    stepper.run();
  }

  std::vector<Call> refills = stepper.step_to_stop();
  const uint64_t cached = median(refills).instructions;
  std::erase_if(refills, [=](const Call& call) { return call.instructions <= cached; });
  if (refills.empty()) bench::fail("no refill seen");
  // The one that finds all that it needs in a slab, and has nothing else to look after.
  const Call refill = *std::min_element(
      refills.begin(), refills.end(),
      [](const Call& a, const Call& b) { return a.questions.size() < b.questions.size(); });
  std::snprintf(text, sizeof text,
                "], \"refill\": {\"size\": %zu, \"seen\": %zu, \"instructions\": %" PRIu64
                ", \"questions\": %zu}",
                kRefillSize, refills.size(), refill.instructions, refill.questions.size());
  json += text;
  stepper.run();

  std::vector<Call> remote = stepper.step_to_stop();
  if (remote.size() != remote_objects) bench::fail("%zu remote frees seen", remote.size());
  Call sum;
  for (const Call& call : remote) {
    sum.instructions += call.instructions;
    sum.locked += call.locked;
  }
  std::snprintf(text, sizeof text,
                ", \"remote_free\": {\"size\": %zu, \"objects\": %" PRIu64 ", \"median\": %" PRIu64
                ", \"mean\": %.2f, \"locked_per_object\": %.5f}}",
                kRemoteSize, remote_objects, median(remote).instructions,
                static_cast<double>(sum.instructions) / static_cast<double>(remote_objects),
                static_cast<double>(sum.locked) / static_cast<double>(remote_objects));
  json += text;
  std::puts(json.c_str());
  ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    bench::fail("the child did not end well");
  }
}

#endif
