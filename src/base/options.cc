#include "base/options.h"

namespace loft {

constinit Options options;

}  // namespace loft
