#include "files/misuse.h"

#include <string.h>

#include <new>
#include <string_view>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/keep.h"
#include "base/macros.h"
#include "base/options.h"
#include "files/inspect.h"
#include "files/output.h"
#include "files/without_signals.h"
#include "os/fault.h"
#include "os/os.h"

namespace loft::files {

namespace {

constexpr size_t kMostFrames = 48;
constexpr size_t kLongestName = 512;

// Written once, before on_misuse leads here.
using Describe = Text (*)(const void* p);
constinit Describe describe_object = nullptr;

// The path of the program, which the loader has no name for. Release and acquire: it is complete.
constinit Atomic<const char*> program_path{nullptr};

constinit Handler handler;

// What is worked with. Not on the stack, which may be a fiber's or a signal's.
struct MisuseReport {
  void put(std::string_view text) {
    const size_t fits = least(text.size(), sizeof(text_) - 1 - size_);
    memcpy(text_ + size_, text.data(), fits);
    size_ += fits;
  }
  void put(const Text& text) { put(std::string_view(text.data(), text.size())); }

  void put_stack(const uintptr_t* frames, size_t count);
  void put_process();
  void append_to(const char* path);

  size_t size_;
  char text_[32 * 1024];
  uintptr_t frames_[kMostFrames];
  char path_[kLongestPath];
};

Text hex(const uint8_t* bytes, size_t count) {
  Text text;
  for (size_t i = 0; i < count; ++i) {
    const char two[] = {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15], 0};
    text << two;
  }
  return text;
}

// Names of files can have anything in them, and a report has lines.
void put_name(MisuseReport& report, std::string_view name) {
  for (const char c : std::string_view(name.data(), least(name.size(), kLongestName))) {
    const char shown = static_cast<unsigned char>(c) < ' ' ? '?' : c;
    report.put(std::string_view(&shown, 1));
  }
}

void MisuseReport::put_stack(const uintptr_t* frames, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    put(Text() << "  #" << uint64_t{i} << " " << reinterpret_cast<const void*>(frames[i]));
    inspect::CodeName code = {};
    // A return address may be behind the function's end.
    if (inspect::name_code(frames[i] - 1, &code)) {
      const char* const program = program_path.load(memory_order_acquire);
      put(" in ");
      put_name(*this, *code.file != 0 ? code.file : program != nullptr ? program : "?");
      put(Text() << "+" << reinterpret_cast<const void*>(code.address + 1));
      if (code.build_id_bytes != 0) {
        put(" build-id ");
        put(hex(code.build_id, code.build_id_bytes));
      }
    }
    put("\n");
  }
  if (count == 0) put("  no stack\n");
}

void MisuseReport::put_process() {
  const uint64_t now = wall_clock_ns();
  put(Text() << "  process " << uint64_t{process_number()} << ", thread "
             << static_cast<uint64_t>(os::thread_number()) << ", second " << now / 1'000'000'000
             << "\n");
}

// In one write: reports of several processes do not mix.
void MisuseReport::append_to(const char* path) {
  const char* trouble = "its path is too long";
  int file = -1;
  if (expand_path(path, path_, sizeof(path_))) {
    file = open_to_append(path_, &trouble);
  }
  if (file >= 0) {
    // A file that may not grow does not end a program that goes on, nor keep a report from others.
    const WithoutSignals none;
    if (!write_at_once(file, text_, size_)) trouble = "it could not be written";
    close_output(file);
  }
  if (trouble != nullptr) {
    os::report(Text() << "the report is not appended to " << path << ": " << trouble);
  }
}

struct Kept {
  const Stack* stacks;
  size_t count;
};

void put_what(MisuseReport& report, const Text& what, bool for_a_file, bool describes) {
  report.put("loft: ");
  report.put(what);
  report.put("\n");
  if (for_a_file) report.put_process();
  if (describes && what.what_about() != nullptr && describe_object != nullptr) {
    report.put("  ");
    report.put(describe_object(what.what_about()));
    report.put("\n");
  }
}

void put_stacks(MisuseReport& report, Kept kept) {
  report.put_stack(report.frames_, inspect::capture(report.frames_, kMostFrames));
  for (size_t i = 0; i < kept.count; ++i) {
    const Stack& stack = kept.stacks[i];
    report.put(Text() << "  " << stack.what << " by thread " << stack.thread << "\n");
    report.put_stack(stack.frames, stack.depth);
  }
  report.put("  end of report\n");
}

void tell(const Text& what, bool always_whole, Kept kept) {
  const KeepErrno keep;
  const char* const path = path_of(options.report_file);
  const bool whole = always_whole || path != nullptr || handler.is_set();
  if (!whole) return os::report(Text(what) << " (LOFT_REPORT_FILE=PATH adds the stack)");
  if (in_a_handler()) return os::report(what);
  void* const memory = borrow(sizeof(MisuseReport));
  if (memory == nullptr) {
    // The line is what is left of it.
    os::report(what);
    handler.call(what.data(), what.size());
    return;
  }
  MisuseReport& report = *new (memory) MisuseReport;
  put_what(report, what, path != nullptr, kept.count == 0);
  const auto write_out = os::on_text.load(memory_order_acquire);
  // Before the stack, which may be what was overwritten: to follow it then ends the process.
  const size_t told = report.size_;
  write_out(report.text_, told);
  put_stacks(report, kept);
  write_out(report.text_ + told, report.size_ - told);
  if (path != nullptr) report.append_to(path);
  handler.call(report.text_, report.size_);
  give_back(memory, sizeof(MisuseReport));
}

void tell_misuse(const Text& what) { tell(what, false, {nullptr, 0}); }

void note_program_path() {
  if (program_path.load(memory_order_acquire) != nullptr) return;
  constexpr size_t kBytes = 4096;
  auto* const path = static_cast<char*>(borrow(kBytes));
  if (path == nullptr) return;
  if (!path_of_program(path, kBytes)) return give_back(path, kBytes);
  const char* none = nullptr;
  if (!program_path.compare_exchange_strong(none, path, memory_order_release,
                                            memory_order_relaxed)) {
    give_back(path, kBytes);  // another thread was first
  }
}

}  // namespace

void begin_reports(Text (*describe)(const void* p)) {
  describe_object = describe;
  os::on_misuse.store(tell_misuse, memory_order_release);
}

LOFT_AT_LOAD void follow_reports() {
  const bool is_guarded = get(options.hardened) == kHardenedGuard;
  if (!is_guarded && path_of(options.report_file) == nullptr && !handler.is_set()) return;
  note_program_path();
  inspect::open();
}

void tell_with_stacks(const Text& what, const Stack* stacks, size_t count) {
  tell(what, true, {stacks, count});
}

void set_misuse_handler(TextHandler function, void* with) {
  handler.set(function, with);
  follow_reports();
}

}  // namespace loft::files
