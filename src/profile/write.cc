#include "profile/write.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/atomic.h"
#include "base/options.h"
#include "files/output.h"
#include "os/fault.h"
#include "profile/samples.h"
#include "profile/snapshot.h"

namespace loft::profile {

namespace {

constexpr size_t kLongestPath = 4096;

// The process that the options were read in.
unsigned first_process() {
  static constinit Atomic<unsigned> first{0};  // relaxed: a number by itself
  if (first.load(memory_order_relaxed) == 0) {
    first.store(files::process_number(), memory_order_relaxed);
  }
  return first.load(memory_order_relaxed);
}

Moment moment_of(uint64_t profile_at) {
  if (profile_at == kAtPeak) return Moment::kPeak;
  return profile_at == kAtLeaks && lost_are_counted() ? Moment::kLeaks : Moment::kNow;
}

// `whose` is put behind the path in the child of a fork, whose parent may have the same one.
int write_to_expanded(char* expanded, const char* path, const char* whose) {
  if (!files::expand_path(path, whose, expanded, kLongestPath)) return ENAMETOOLONG;
  int error = 0;
  const int file = files::open_output(expanded, &error);
  if (file < 0) return error;
  const Moment moment = moment_of(get(options.profile_at));
  const bool as_text = std::string_view(expanded).ends_with(".collapsed");
  error = as_text ? write_collapsed(file, moment) : write_pprof(file, {.moment = moment});
  files::close_output(file);
  return error;
}

int write_with(const char* path, const char* whose) {
  void* const expanded = files::borrow(kLongestPath);
  if (expanded == nullptr) return ENOMEM;
  const int error = write_to_expanded(static_cast<char*>(expanded), path, whose);
  files::give_back(expanded, kLongestPath);
  return error;
}

}  // namespace

void note_process() { first_process(); }

int write_to(const char* path) { return write_with(path, ""); }

void write_at_exit() {
  const char* const path = path_of(options.profile_file);
  if (path == nullptr) return;
  const bool is_child = first_process() != files::process_number();
  const bool names_process = std::string_view(path).find("%p") != std::string_view::npos;
  const int error = write_with(path, is_child && !names_process ? "%p-" : "");
  if (error == 0) return;
  os::report(Text() << "the profile is not written to " << path << ": error "
                    << static_cast<uint64_t>(error)
                    << (error == ENOENT   ? " (its folder does not exist)"
                        : error == EACCES ? " (permission denied)"
                        : error == EISDIR ? " (it is a folder)"
                        : error == ENXIO  ? " (nobody reads from it)"
                        : error == ENOSPC ? " (no space left)"
                                          : ""));
}

}  // namespace loft::profile
