#include "cache/census.h"

namespace loft::census {

constinit __thread Stage stage LOFT_TLS_INITIAL_EXEC = kNone;
constinit Counter started;
constinit Counter exited;
constinit Counter blockless;

}  // namespace loft::census
