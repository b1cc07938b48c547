// The guests of the core, in the order in which a fork takes their locks.
#include "cache/guest.h"
#include "cache/percpu.h"
#include "hardened/modes.h"
#include "heaps/as_guest.h"
#include "sampling/sampling.h"

namespace loft {

constinit const Guest* const guests[] = {&sampling_guest, &percpu::guest, &user_heaps_guest::guest,
                                         &hardened::guest};
constinit const unsigned guest_count = sizeof guests / sizeof guests[0];

}  // namespace loft
