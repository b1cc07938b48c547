// glibc keeps a variable for it, which is asked for by name: older versions and others have none.
#include <dlfcn.h>

#include "api/threads_seen.h"

#pragma weak dlsym

namespace loft {

bool libc_saw_threads() {
  if (dlsym == nullptr) return false;
  const void* const has_one = dlsym(RTLD_DEFAULT, "__libc_single_threaded");
  return has_one != nullptr && *static_cast<const char*>(has_one) == 0;
}

}  // namespace loft
