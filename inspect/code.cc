// The stack of an object's birth may name code that has been unloaded since, or is just being
// unloaded. So the system is asked about each word before it is read.
#include "inspect/code.h"

#include <link.h>

#include "inspect/build_id.h"
#include "inspect/loader.h"
#include "inspect/memory.h"

namespace loft::inspect {

bool name_code(uintptr_t pc, CodeName* name) {
  FoundObject found;
  if (!find_object(pc, &found) || found.link_map == nullptr) return false;
  const auto* const map = static_cast<const link_map*>(found.link_map);
  name->file = map->l_name == nullptr ? "" : map->l_name;
  name->address = pc - map->l_addr;
  name->build_id_bytes =
      find_build_id(reinterpret_cast<uintptr_t>(found.begin),
                    reinterpret_cast<uintptr_t>(found.end), copy_if_readable, name->build_id);
  return true;
}

}  // namespace loft::inspect
