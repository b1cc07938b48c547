#include "hardened/name.h"

namespace loft::hardened {

const char* name_of(Maker maker) {
  switch (maker) {
    case Maker::kMalloc:
      return "malloc";
    case Maker::kNew:
      return "new";
    case Maker::kNewArray:
      return "new[]";
    case Maker::kNewAligned:
      return "new with an alignment";
    case Maker::kNewArrayAligned:
      break;
  }
  return "new[] with an alignment";
}

}  // namespace loft::hardened
