#include "profile/write.h"

#include <cerrno>
#include <new>
#include <string_view>

#include "base/atomic.h"
#include "base/options.h"
#include "files/output.h"
#include "os/fault.h"
#include "profile/samples.h"
#include "profile/snapshot.h"

namespace loft::profile {

namespace {

struct Target {
  char path[files::kLongestPath];
  files::OutputFile output;
};

// The process that the options were read in.
unsigned first_process() {
  static constinit Atomic<unsigned> first{0};  // relaxed: a number by itself
  if (first.load(memory_order_relaxed) == 0) {
    first.store(files::process_number(), memory_order_relaxed);
  }
  return first.load(memory_order_relaxed);
}

Moment moment_of(uint64_t wanted) {
  if (wanted == kProfilePeak) return Moment::kPeak;
  const bool counted = wanted == kProfileLeaks || wanted == kProfileWaste;
  return counted && lost_are_counted() ? Moment::kLeaks : Moment::kNow;
}

// `whose` is put before the name in the child of a fork, whose parent may have the same one; `word`
// into it.
int write_to_target(Target& target, const char* path, const char* whose, const char* word) {
  constexpr size_t kSize = sizeof(target.path);
  if (!files::expand_path(path, whose, target.path, kSize)) return ENAMETOOLONG;
  if (*word != 0 && !files::add_word(target.path, kSize, word)) return ENAMETOOLONG;
  if (const int error = target.output.open(target.path); error != 0) return error;
  const Moment moment = moment_of(get(options.profile));
  const files::WithoutSignals without_signals;
  const bool as_text = std::string_view(target.path).ends_with(".collapsed");
  const int file = target.output.file();
  return target.output.close(as_text ? write_collapsed(file, moment) : write_pprof(file, moment));
}

int write_with(const char* path, const char* whose, const char* word) {
  void* const memory = files::borrow(sizeof(Target));
  if (memory == nullptr) return ENOMEM;
  const int error = write_to_target(*new (memory) Target, path, whose, word);
  files::give_back(memory, sizeof(Target));
  return error;
}

// Writes what the option asks for, and reports a failure.
void write_asked(const char* word) {
  const char* const path = path_of(options.profile_file);
  if (path == nullptr) return;
  const bool is_child = first_process() != files::process_number();
  const bool names_process = std::string_view(path).find("%p") != std::string_view::npos;
  const int error = write_with(path, is_child && !names_process ? "%p-" : "", word);
  if (error == 0) return;
  os::report(Text() << "the profile is not written to " << path << ": error "
                    << static_cast<uint64_t>(error)
                    << (error == ENOMEM   ? " (no memory for that)"
                        : error == ENOENT ? " (its folder does not exist)"
                        : error == EACCES ? " (permission denied)"
                        : error == EISDIR ? " (it is a folder)"
                        : error == ELOOP  ? " (it is a symbolic link)"
                        : error == EEXIST ? " (it is no regular file)"
                        : error == ENOSPC ? " (no space left)"
                                          : ""));
}

// Address space that the writing of a profile can use where the system refuses more.
constexpr size_t kRoom = size_t{4} << 20;
constinit Atomic<void*> kept_room{nullptr};  // relaxed: nobody looks at what it contains

void give_up_room() { files::give_back(kept_room.exchange(nullptr, memory_order_relaxed), kRoom); }

void keep_room() {
  if (kept_room.load(memory_order_relaxed) != nullptr) return;
  void* const room = files::borrow(kRoom);
  void* none = nullptr;
  if (!kept_room.compare_exchange_strong(none, room, memory_order_relaxed, memory_order_relaxed)) {
    files::give_back(room, kRoom);  // another thread was first
  }
}

}  // namespace

void get_ready() {
  first_process();
  if (path_of(options.profile_file) != nullptr) keep_room();
}

int write_to(const char* path) { return write_with(path, "", ""); }

void write_at_exit() { write_asked(""); }

void write_on_signal() {
  static constinit Atomic<uint64_t> written{0};  // relaxed: a number by itself
  write_asked((Text() << "signal-" << written.fetch_add(1, memory_order_relaxed) + 1).data());
}

// A clock would make what is written a matter of luck: whether the first refusal is the one that
// tells. With a bound on growth there are few files, and the last tells of the most memory.
void write_refused() {
  // By the number of the process: the child of a fork has refusals of its own. Relaxed, all three:
  // numbers by themselves; the worst is one file more.
  static constinit Atomic<unsigned> writer{0};  // 0: none
  static constinit Atomic<unsigned> last_writer{0};
  static constinit Atomic<uint64_t> last_in_use{0};
  if (path_of(options.profile_file) == nullptr) return;
  const unsigned process = files::process_number();
  const uint64_t now = in_use();
  const uint64_t last = last_in_use.load(memory_order_relaxed);
  if (last_writer.load(memory_order_relaxed) == process && now <= last + last / 2) return;
  if (writer.exchange(process, memory_order_relaxed) == process) return;
  last_in_use.store(now, memory_order_relaxed);
  last_writer.store(process, memory_order_relaxed);
  give_up_room();
  write_asked("refused");
  keep_room();
  writer.store(0, memory_order_relaxed);
}

}  // namespace loft::profile
