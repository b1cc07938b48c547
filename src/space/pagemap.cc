#include "space/pagemap.h"

namespace loft {

constinit Pagemap pagemap;

}  // namespace loft
