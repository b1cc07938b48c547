#include "profile/write.h"

#include <cerrno>

#include "base/options.h"
#include "files/output.h"
#include "os/fault.h"
#include "profile/progress.h"
#include "profile/samples.h"

namespace loft::profile {

namespace {

Moment asked_moment() {
  const uint64_t wanted = get(options.profile);
  if (wanted == kProfilePeak) return Moment::kPeak;
  const bool counted = wanted == kProfileLeaks || wanted == kProfileWaste;
  return counted && lost_are_counted() ? Moment::kLeaks : Moment::kNow;
}

int write(inspect::Occasion occasion, const char* path) {
  const inspect::Table* const library = inspect::opened_library();
  return library == nullptr ? ELIBACC
                            : library->save_profile(as_it_is(asked_moment()), occasion, path);
}

void write_asked(inspect::Occasion occasion) {
  const char* const path = path_of(options.profile_file);
  if (path != nullptr) write(occasion, path);
}

}  // namespace

inspect::Source as_it_is(Moment moment) {
  return {newest_site(), mean_bytes(), in_use(), moment, os::report, files::expand_path};
}

void get_ready() {
  const inspect::Table* const library = inspect::opened_library();
  if (library != nullptr) library->expect_profile(path_of(options.profile_file) != nullptr);
}

int write_to(const char* path) { return write(inspect::Occasion::kCall, path); }

void write_at_exit() { write_asked(inspect::Occasion::kEnd); }

void write_on_signal() { write_asked(inspect::Occasion::kSignal); }

void write_refused() { write_asked(inspect::Occasion::kRefused); }

}  // namespace loft::profile
