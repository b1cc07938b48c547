// The guests of the core, in the order in which a fork takes their locks.
#include "arena/guest.h"
#include "cache/guest.h"
#include "cpu/core.h"
#include "front/metered.h"
#include "hard/guest.h"

namespace loft {

constinit const Guest* const guests[] = {&sampling, &core::guest, &user_heaps_guest::guest,
                                         &hard::guest};
constinit const unsigned guest_count = sizeof guests / sizeof guests[0];

}  // namespace loft
