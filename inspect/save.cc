#include "inspect/save.h"

#include <errno.h>
#include <unistd.h>

#include <string_view>

#include "base/atomic.h"
#include "base/keep.h"
#include "base/text.h"
#include "files/without_signals.h"
#include "inspect/forms.h"
#include "inspect/memory.h"
#include "inspect/new_file.h"

namespace loft::inspect {

namespace {

uint64_t process_number() { return static_cast<uint64_t>(getpid()); }

// The process that the options were read in. Relaxed: a number by itself.
constinit Atomic<uint64_t> first_process{0};

// Address space that the writing of a profile can use where the system refuses more.
constexpr size_t kRoom = size_t{4} << 20;
constinit Atomic<void*> kept_room{nullptr};  // relaxed: nobody looks at what it contains

void give_up_room() { give_back(kept_room.exchange(nullptr, memory_order_relaxed), kRoom); }

void keep_room() {
  if (kept_room.load(memory_order_relaxed) != nullptr) return;
  void* const room = borrow(kRoom);
  void* none = nullptr;
  if (!kept_room.compare_exchange_strong(none, room, memory_order_relaxed, memory_order_relaxed)) {
    give_back(room, kRoom);  // another thread was first
  }
}

int write_into(const Source& source, int file, bool as_text) {
  const Locations locations(source.newest);
  const Borrowed<Sink> sink(file, !as_text);
  if (!locations.is_complete() || !sink.is_there()) return ENOMEM;
  (as_text ? write_collapsed : write_pprof)(*sink, source, locations);
  return sink->end();
}

struct Target {
  char asked[kLongestPath];
  char path[kLongestPath];
  NewFile file;
};

int save(const Source& source, const char* path, const char* before, const char* word) {
  const Borrowed<Target> target;
  if (!target.is_there()) return ENOMEM;
  if (!source.expand_path(path, target->asked, kLongestPath) ||
      !name_beside(target->asked, before, word, target->path, kLongestPath)) {
    return ENAMETOOLONG;
  }
  if (const int error = target->file.open(target->path); error != 0) return error;
  const files::WithoutSignals without_signals;
  const bool as_text = std::string_view(target->path).ends_with(".collapsed");
  return target->file.close(write_into(source, target->file.file(), as_text));
}

// Saves what the option asks for, and reports a failure. The child of a fork, whose parent may have
// the same file, puts its number before the name if that has no %p.
int save_asked(const Source& source, const char* path, const char* word) {
  const uint64_t process = process_number();
  const bool is_child = first_process.load(memory_order_relaxed) != process;
  const bool names_process = std::string_view(path).find("%p") != std::string_view::npos;
  const Text before = is_child && !names_process ? Text() << process << "-" : Text();
  const int error = save(source, path, before.data(), word);
  if (error == 0) return 0;
  source.report(Text() << "the profile is not written to " << path << ": error "
                       << static_cast<uint64_t>(error)
                       << (error == ENOMEM   ? " (no memory for that)"
                           : error == ENOENT ? " (its folder does not exist)"
                           : error == EACCES ? " (permission denied)"
                           : error == EISDIR ? " (it is a folder)"
                           : error == ELOOP  ? " (it is a symbolic link)"
                           : error == EEXIST ? " (it is no regular file)"
                           : error == ENOSPC ? " (no space left)"
                                             : ""));
  return error;
}

// For the first time, and whenever half as much again is in use as the last time. A clock would
// make what is written a matter of luck: whether the first refusal is the one that tells. With a
// bound on growth there are few files, and the last tells of the most memory.
int save_refused(const Source& source, const char* path) {
  // By the number of the process: the child of a fork has refusals of its own. Relaxed, all three:
  // numbers by themselves; the worst is one file more.
  static constinit Atomic<uint64_t> writer{0};  // 0: none
  static constinit Atomic<uint64_t> last_writer{0};
  static constinit Atomic<uint64_t> last_in_use{0};
  const uint64_t process = process_number();
  const uint64_t last = last_in_use.load(memory_order_relaxed);
  if (last_writer.load(memory_order_relaxed) == process && source.in_use <= last + last / 2) {
    return 0;
  }
  if (writer.exchange(process, memory_order_relaxed) == process) return 0;
  last_in_use.store(source.in_use, memory_order_relaxed);
  last_writer.store(process, memory_order_relaxed);
  give_up_room();
  const int error = save_asked(source, path, "refused");
  keep_room();
  writer.store(0, memory_order_relaxed);
  return error;
}

}  // namespace

int write_profile(const Source& source, int file) {
  const KeepErrno keep;
  return write_into(source, file, false);
}

int save_profile(const Source& source, Occasion occasion, const char* path) {
  static constinit Atomic<uint64_t> signals{0};  // relaxed: a number by itself
  const KeepErrno keep;
  switch (occasion) {
    case Occasion::kCall:
      return save(source, path, "", "");
    case Occasion::kEnd:
      return save_asked(source, path, "");
    case Occasion::kRefused:
      return save_refused(source, path);
    case Occasion::kSignal:
      break;
  }
  const uint64_t number = signals.fetch_add(1, memory_order_relaxed) + 1;
  return save_asked(source, path, (Text() << "signal-" << number).data());
}

void expect_profile(bool in_a_file) {
  const KeepErrno keep;
  uint64_t nobody = 0;
  first_process.compare_exchange_strong(nobody, process_number(), memory_order_relaxed,
                                        memory_order_relaxed);
  if (in_a_file) keep_room();
}

}  // namespace loft::inspect
