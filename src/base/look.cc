#include "base/look.h"

namespace loft {

constinit LOFT_TLS __thread uint8_t slow_paths_left = kSlowPathsPerLook;

}  // namespace loft
