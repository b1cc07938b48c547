#include "profile/write.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/options.h"
#include "files/output.h"
#include "os/fault.h"
#include "profile/snapshot.h"

namespace loft::profile {

int write_to(const char* path) {
  char expanded[4096];
  if (!files::expand_path(path, expanded, sizeof(expanded))) return ENAMETOOLONG;
  int error = 0;
  const int file = files::open_output(expanded, &error);
  if (file < 0) return error;
  static constexpr Moment kMoments[] = {Moment::kNow, Moment::kPeak, Moment::kLeaks};
  const Moment moment = kMoments[get(options.profile_at)];
  const bool as_text = std::string_view(expanded).ends_with(".collapsed");
  error = as_text ? write_collapsed(file, moment) : write_pprof(file, moment);
  files::close_output(file);
  return error;
}

void write_at_exit() {
  const char* const path = path_of(options.profile_file);
  if (path == nullptr) return;
  const int error = write_to(path);
  if (error == 0) return;
  os::report(Text() << "the profile is not written to " << path << ": error "
                    << static_cast<uint64_t>(error)
                    << (error == ENOENT   ? " (its folder does not exist)"
                        : error == EACCES ? " (permission denied)"
                        : error == ENOSPC ? " (no space left)"
                                          : ""));
}

}  // namespace loft::profile
