#include "api/process.h"

#include <dlfcn.h>
#include <errno.h>

#include "api/describe.h"
#include "api/info.h"
#include "api/option_text.h"
#include "api/settings.h"
#include "cache/percpu.h"
#include "files/last_signal.h"
#include "files/misuse.h"
#include "hardened/before.h"
#include "hardened/modes.h"
#include "heap/registry.h"
#include "os/fault.h"
#include "os/limits.h"
#include "os/symbols.h"
#include "profile/samples.h"
#include "profile/write.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "sampling/sampling.h"
#include "serve/server.h"
#include "stats/lost.h"
#include "stats/objects.h"

#pragma weak dlsym

namespace loft {

// 101 is the first priority not reserved for the implementation. The os floor uses it.
namespace {

// Does what the options of the profile say now: at the start, and after a change.
void follow_profile() {
  follow_profile_options();
  if (!profile::prepared()) return;
  profile::get_ready();
  const auto signal = static_cast<unsigned>(get(options.profile_signal));
  if (files::on_signal(signal, profile::write_on_signal)) return;
  os::report(Text() << "profile_signal is ignored: the program handles or ignores signal "
                    << uint64_t{signal});
}

// A request on the socket. Its own path would have the socket's thread wait for its own end. No
// path is taken: each stays in memory for ever, and what may ask for figures may not choose files.
int change_from_afar(std::string_view name, std::string_view value) {
  return is_path(name) ? EACCES : apply_option(name, value);
}

bool note_all_before() {
  bool noted = true;
  errno = 0;
  const auto note = [](void* all, void* object, size_t) {
    return (*static_cast<bool*>(all) = hardened::note_before(object)) ? 0 : 1;
  };
  visit_objects(nullptr, note, &noted);
  return errno == 0 && noted;
}

// Whether glibc says that the process has, or had, a second thread. It keeps a variable for it,
// which is asked for by name: older versions and musl have none, and a static program has no dlsym.
bool libc_saw_threads() {
  if (dlsym == nullptr) return false;
  const void* const has_one = dlsym(RTLD_DEFAULT, "__libc_single_threaded");
  return has_one != nullptr && *static_cast<const char*>(has_one) == 0;
}

// Whether other threads may be in a call of loft. In a program that has loft in itself, its
// libraries are initialised first, and may have begun some. glibc tells; elsewhere those count that
// have called loft. A library of its own is initialised before all others, or nobody has called it.
bool has_other_threads() {
  if (os::is_own_library()) return false;
  return libc_saw_threads() || census::has_other_threads();
}

// What the thread has is given back, so that it starts over in the mode. False beside others.
bool start_over_alone() {
  if (has_other_threads()) return false;
  lifecycle::give_up_cache();
  return true;
}

// Returns unless the program must not run without.
LOFT_COLD void do_without_hardening(const char* why) {
  if (get(options.hardened_required) != 0) {
    os::report(Text() << why << "hardened_required=on, so the program stops");
    os::abort_process();
  }
  os::report(Text() << why << "hardened=off instead");
  options.hardened.store(kHardenedOff, memory_order_relaxed);
}

// What a process says once, at its end: at its exit, or when SIGTERM ends it.
void tell_last() {
  if (profile::prepared()) profile::write_at_exit();
  // The choices after `off` are those of loft_stats_format_t.
  if (const uint64_t wanted = get(options.stats); wanted != 0) {
    print_last_stats(static_cast<loft_stats_format_t>(wanted - 1));
  }
}

bool serve_processors() {
  if (has_other_threads() || !percpu::prepare()) return false;
  lifecycle::give_up_cache();
  percpu::begin();
  return true;
}

}  // namespace

int apply_option(std::string_view name, std::string_view value) {
  switch (change_option(name, value)) {
    case OptionError::kNone:
      background::options_changed();
      files::follow_reports();
      follow_profile();
      return 0;
    case OptionError::kUnknownName:
      return ENOENT;
    case OptionError::kFixed:
      return EPERM;
    case OptionError::kBadValue:
      break;
  }
  return EINVAL;
}

[[gnu::constructor(102)]] void process_starts() {
  if (kLoftCore) os::stay_loaded();
  files::begin_reports(describe_address);
  set_options_from_file(LOFT_SETTINGS_FILE);
  load_options();
  files::follow_reports();
  if (get(options.owner) == kOwnerCpu && !serve_processors()) {
    os::report(
        Text() << "owner=cpu: no memory, more than 8000 processors, other threads already, or "
                  "no C library that says on which processor a thread is; owner=thread "
                  "instead");
    options.owner.store(kOwnerThread, memory_order_relaxed);
  }
  if (get(options.hardened) == kHardenedFull &&
      !(start_over_alone() && hardened::begin(note_all_before))) {
    do_without_hardening(
        "hardened=full: the program has other threads already, more than 8000 objects, or the "
        "system refuses memory or its protection; ");
  }
  if (get(options.hardened) == kHardenedGuard && !(start_over_alone() && guard::begin())) {
    do_without_hardening(
        "hardened=guard: the program has other threads already, or the system refuses memory or "
        "its protection; ");
  }
  // Objects allocated before belong to another heap than the common one: the thread starts over.
  if (registry::all_share()) lifecycle::give_up_cache();
  background::enable();
  if (get(options.profile) != kNoProfile) {
    follow_profile();
  }
  const bool writes_profile = profile::prepared() && path_of(options.profile_file) != nullptr;
  if (writes_profile || get(options.stats) != 0) files::on_termination(tell_last);
  serve::enable(change_from_afar);
}

namespace {

// The latest priority for a destructor, so that frees by other destructors are counted.
[[gnu::destructor(101)]] void process_ends() {
  serve::leave_place();
  inspect::LookedAt looked_at;
  if (get(options.profile) == kProfileLeaks && profile::prepared() && !count_leaks(&looked_at)) {
    os::report(
        Text() << "leaks were not looked for: no memory for that, or the system does not let "
                  "the process copy its own memory");
  }
  if (get(options.profile) == kProfileWaste && profile::prepared() && !count_waste()) {
    os::report(Text() << "what is wasted was not counted: no memory for that");
  }
  if (profile::prepared() || get(options.stats) != 0) files::run_last(tell_last);
}

}  // namespace

}  // namespace loft
