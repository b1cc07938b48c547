#include "cache/census.h"

namespace loft::census {

LOFT_DEFINE_PER_THREAD(Stage, stage, kNone);
constinit Counter started;
constinit Counter exited;
constinit Counter blockless;

}  // namespace loft::census
