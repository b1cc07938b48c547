// Executes a thread of another process one instruction at a time, and says what it met outside of
// the program's own code: for machines without hardware counters.
//
// A step interrupts, and an interruption makes the system abort a restartable sequence
// (owner=cpu). So after each step the thread's note of the sequence that it is in is cleared: then
// the system lets it go on. While one thread is stepped or runs, the others stand still, unless
// they were told to run: what they do to each other repeats exactly.
#ifndef LOFT_BENCH_STEPPER_H_
#define LOFT_BENCH_STEPPER_H_

#include <sys/user.h>

#include <set>
#include <unordered_map>

#include "traced.h"

namespace bench {

// In the program: here the stepper takes over.
inline void stop_here() { asm volatile("int3" : : : "memory"); }

// A stay outside the program's own code, from the first instruction to the return.
struct Call {
  uint64_t instructions = 0;
  uint64_t calls = 0;
  uint64_t locked = 0;
  std::set<uint64_t> questions{};  // where its conditional jumps stand, each once
};

struct Kind {
  bool call;
  bool locked;
  bool asks;  // a conditional jump
};

// Rough decoding: prefixes, then the opcode.
inline Kind classify(const unsigned char* code) {
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

// The code of a process, which does not change any more: the program's own, and what counts.
class Code {
 public:
  // What counts is that of the files whose names begin so; of all but the program's where it is
  // empty.
  Code(pid_t pid, const std::string& counted) {
    char self[4096];
    const ssize_t length = readlink(proc_path(pid, "exe").c_str(), self, sizeof self - 1);
    if (length <= 0) fail("cannot find the program's own path");
    const std::string own(self, static_cast<size_t>(length));
    for (const Mapping& each : mappings_of(pid)) {
      if (!each.executable) continue;
      const std::string file = each.name.substr(each.name.rfind('/') + 1);
      if (each.name == own) own_.push_back(each);
      if (!counted.empty() && file.compare(0, counted.size(), counted) == 0) {
        counted_.push_back(each);
      }
    }
    all_ = counted.empty();
    if (!all_ && counted_.empty()) fail("the program has loaded no %s", counted.c_str());
  }
  bool is_own(uint64_t address) const { return holds(own_, address); }
  // Whether an instruction that leaves this code leaves what counts.
  bool leaves(uint64_t address) const { return !all_ && holds(counted_, address); }
  bool counts(uint64_t address) const { return all_ || holds(counted_, address); }

 private:
  static bool holds(const std::vector<Mapping>& places, uint64_t address) {
    for (const Mapping& each : places) {
      if (address >= each.start && address < each.end) return true;
    }
    return false;
  }
  std::vector<Mapping> own_{};
  std::vector<Mapping> counted_{};
  bool all_ = false;
};

class Stepper {
 public:
  explicit Stepper(pid_t thread) : thread_(thread) {
    constexpr long kOptions = PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, thread_, nullptr, kOptions) != 0) fail("ptrace fails");
  }
  pid_t thread() const { return thread_; }
  // The one that this one has started since the last question: it stands before its first
  // instruction, and is another stepper's.
  pid_t take_new_thread() {
    if (new_thread_ == 0) fail("no thread was started");
    int status;
    if (waitpid(new_thread_, &status, __WALL) != new_thread_ || !WIFSTOPPED(status)) {
      fail("a thread did not start");
    }
    return std::exchange(new_thread_, 0);
  }

  // Lets it run to its next stop, and says whether it got there: else it has ended.
  bool run() {
    resume(PTRACE_CONT);
    return await();
  }

  // To the end of the process.
  int finish() {
    while (run()) {
    }
    return status_;
  }

  // To its next stop or its end: every stay outside the program is one call.
  std::vector<Call> step(const Code& code) {
    find_sequence();
    std::vector<Call> calls;
    bool inside = false;
    uint64_t was = 0;
    for (;;) {
      const uint64_t at = user(offsetof(user_regs_struct, rip));
      if (code.is_own(at)) {
        inside = false;
        if ((peek(at) & 0xFF) == 0xCC) {
          run();
          return calls;
        }
      } else {
        if (!inside) calls.emplace_back();
        inside = true;
        if (code.counts(at)) {
          count(calls.back(), at);
          forget_sequence();
        } else if (code.leaves(was) && !returns(was)) {
          run_to_return();
          was = at;
          continue;
        }
      }
      was = at;
      resume(PTRACE_SINGLESTEP);
      if (!await()) return calls;
    }
  }

 private:
  void resume(__ptrace_request how) {
    if (ptrace(how, thread_, nullptr, nullptr) != 0) fail("cannot resume the program");
    how_ = how;
  }
  bool await() {
    for (;;) {
      if (waitpid(thread_, &status_, __WALL) != thread_) fail("cannot wait for the program");
      if (!WIFSTOPPED(status_)) return false;
      if (status_ >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
        unsigned long started;
        ptrace(PTRACE_GETEVENTMSG, thread_, nullptr, &started);
        new_thread_ = static_cast<pid_t>(started);
        resume(how_);
        continue;
      }
      if (WSTOPSIG(status_) != SIGTRAP) fail("the program got signal %d", WSTOPSIG(status_));
      return true;
    }
  }
  uint64_t user(size_t offset) const {
    errno = 0;
    const auto value = static_cast<uint64_t>(ptrace(PTRACE_PEEKUSER, thread_, offset, nullptr));
    if (errno != 0) fail("cannot read registers");
    return value;
  }
  void poke(uint64_t address, uint64_t value) const {
    if (ptrace(PTRACE_POKEDATA, thread_, reinterpret_cast<void*>(address),
               reinterpret_cast<void*>(value)) != 0) {
      fail("cannot write into the program");
    }
  }
  bool returns(uint64_t address) const {
    const uint64_t code = peek(address);
    return (code & 0xFF) == 0xC3 || (code & 0xFFFF) == 0xC3F3;
  }
  // What does not count, as where libc clears memory, at full speed.
  void run_to_return() {
    const uint64_t to = peek(user(offsetof(user_regs_struct, rsp)));
    const uint64_t there = peek(to);
    poke(to, (there & ~uint64_t{0xFF}) | 0xCC);
    run();
    poke(to, there);
    if (user(offsetof(user_regs_struct, rip)) != to + 1) fail("a call did not return");
    if (ptrace(PTRACE_POKEUSER, thread_, offsetof(user_regs_struct, rip),
               reinterpret_cast<void*>(to)) != 0) {
      fail("cannot write registers");
    }
  }
  void count(Call& call, uint64_t at) {
    const Kind kind = kind_at(at);
    call.instructions++;
    call.calls += kind.call;
    call.locked += kind.locked;
    if (kind.asks) call.questions.insert(at);
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
  uint64_t peek(uint64_t address) const {
    return static_cast<uint64_t>(
        ptrace(PTRACE_PEEKTEXT, thread_, reinterpret_cast<void*>(address), nullptr));
  }
  void find_sequence() {
    struct {
      uint64_t area;
      uint32_t size, signature, flags, padding;
    } registered = {};
    constexpr auto kGetConfiguration = static_cast<__ptrace_request>(0x420f);
    if (ptrace(kGetConfiguration, thread_, sizeof registered, &registered) > 0) {
      sequence_ = registered.area + 8;  // rseq_cs
    }
  }
  void forget_sequence() const {
    if (sequence_ != 0) poke(sequence_, 0);
  }
  pid_t thread_;
  pid_t new_thread_ = 0;
  int status_ = 0;
  __ptrace_request how_ = PTRACE_CONT;
  uint64_t sequence_ = 0;  // 0: the thread has no registration
  std::unordered_map<uint64_t, Kind> kinds_{};
};

}  // namespace bench

#endif  // LOFT_BENCH_STEPPER_H_
