// Looks for damage that no call has met yet (hardened=full): fences and tags behind the objects of
// slabs, and what was written to free cells. Some bytes in each tick.
//
// It reads without a lock what other threads write. That holds, because
//   - addresses of a slab stay mapped, and stay those of a slab of the same class (slab/apart.h),
//     whatever becomes of the slab meanwhile;
//   - whoever hands a cell out or takes it back keeps its tag at 0 while the fence is neither
//     whole nor gone (hardened/cell.cc). So a tag of an object in use says that the fence is
//     whole, at any moment, and also if that thread is stopped there;
//   - between two reads of the tag, the object may be freed and come again. So a broken cell is
//     looked at again in the next ticks, and told of when it was broken at each look;
//   - whether a cell is free is decided under the lock of its heap, and only where it does not
//     read as zero.
#pragma once

#include <cstddef>

namespace loft::hardened {

// How often a cell must be found broken, a tick apart.
inline constexpr unsigned kScanLooks = 4;

// The next `bytes` bytes. Stops the program if a cell is damaged. True if all slabs were looked at
// since restart_scan, and none is to be looked at again; without hardened=full, always.
bool scan(size_t bytes);

// The round begins anew.
void restart_scan();

// In the child of a fork.
void forget_scan();

}  // namespace loft::hardened
