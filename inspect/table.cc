// The one name that the library has.
#include "files/inspect_table.h"
#include "inspect/code.h"
#include "inspect/leaks.h"
#include "inspect/place.h"
#include "inspect/save.h"
#include "inspect/serve.h"
#include "inspect/stack.h"

extern "C" {
[[gnu::visibility("default")]] extern const loft::inspect::Table loft_inspect;
const loft::inspect::Table loft_inspect = {
    loft::inspect::kTableVersion,  loft::inspect::begin,         loft::inspect::capture,
    loft::inspect::name_code,      loft::inspect::write_profile, loft::inspect::save_profile,
    loft::inspect::expect_profile, loft::inspect::search_leaks,  loft::inspect::serve,
    loft::inspect::leave_place,
};
}
