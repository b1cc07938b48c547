// In every program of unit and storm: LOFT_TEST_KEYED=1 keys messages before its first test, as a
// hardened library does when it is loaded.
#include <cstdlib>

#include "heap/registry.h"

namespace {

[[gnu::constructor]] void key_messages() {
  if (std::getenv("LOFT_TEST_KEYED") != nullptr) loft::registry::key_messages();
}

}  // namespace
