#include "cache/census.h"

namespace loft::census {

constinit LOFT_TLS __thread Stage stage = kNone;
constinit Counter started;
constinit Counter exited;
constinit Counter blockless;

}  // namespace loft::census
