// Pages on Windows. An allocation is what one call has reserved, in steps of 64 KiB; pages in it
// are committed, which claims memory, and decommitted. No call crosses the border of an allocation,
// so each goes piece by piece: the part of a range that is one allocation's, in one state.
#include <windows.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/fault.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/windows_error.h"
#include "os/windows_placed.h"
#include "os/windows_ranges.h"

namespace loft::os {

namespace {

// Relaxed: these are sums for statistics and order nothing.
constinit Atomic<size_t> map_calls{0};
constinit Atomic<size_t> discard_calls{0};

constinit Lock ranges_lock;
constinit Ranges ranges;  // what `place` has reserved; under the lock

void* pointer(uintptr_t at) { return reinterpret_cast<void*>(at); }

struct Piece {
  uintptr_t from;
  uintptr_t to;
  uintptr_t allocation;  // where it begins
  DWORD state;           // MEM_FREE, MEM_RESERVE or MEM_COMMIT

  size_t bytes() const { return to - from; }
};

// The piece at the beginning of [from, to). False for addresses that a process does not have.
bool look_at_piece(uintptr_t from, uintptr_t to, Piece* piece) {
  MEMORY_BASIC_INFORMATION found;
  if (VirtualQuery(pointer(from), &found, sizeof(found)) == 0) return false;
  const uintptr_t end = reinterpret_cast<uintptr_t>(found.BaseAddress) + found.RegionSize;
  *piece = {from, least(to, end), reinterpret_cast<uintptr_t>(found.AllocationBase), found.State};
  return true;
}

// Calls `visit` for each piece, until it returns false. Returns where that was, or `to`.
template <class Visit>
uintptr_t visit_pieces(uintptr_t from, uintptr_t to, Visit visit) {
  Piece piece;
  for (; from < to; from = piece.to) {
    if (!look_at_piece(from, to, &piece) || !visit(piece)) return from;
  }
  return to;
}

bool decommit(uintptr_t from, uintptr_t to) {
  map_calls.fetch_add(1, memory_order_relaxed);
  if (VirtualFree(pointer(from), to - from, MEM_DECOMMIT)) return true;
  return visit_pieces(from, to, [](const Piece& piece) {
           return piece.state != MEM_COMMIT ||
                  VirtualFree(pointer(piece.from), piece.bytes(), MEM_DECOMMIT) != 0;
         }) == to;
}

// Commits one piece, reserving it first if it is free.
bool fill_piece(const Piece& piece) {
  const DWORD how = piece.state == MEM_FREE ? MEM_RESERVE | MEM_COMMIT : MEM_COMMIT;
  void* const at = pointer(piece.from);
  if (VirtualAlloc(at, piece.bytes(), how, PAGE_READWRITE) != at) return false;
  if (piece.state != MEM_FREE || ranges.add(piece.from, piece.to)) return true;
  VirtualFree(at, 0, MEM_RELEASE);
  return false;
}

// Gives a range without memory memory again. Under the lock. On failure it has none.
bool fill(uintptr_t from, uintptr_t to) {
  map_calls.fetch_add(1, memory_order_relaxed);
  const uintptr_t stop = visit_pieces(from, to, fill_piece);
  if (stop == to) return true;
  decommit(from, stop);
  return false;
}

// The end of an allocation, and whether a page of it has memory.
uintptr_t end_of_allocation(uintptr_t allocation, bool* committed) {
  uintptr_t end = allocation;
  *committed = false;
  Piece piece;
  while (look_at_piece(end, UINTPTR_MAX, &piece) && piece.state != MEM_FREE &&
         piece.allocation == allocation) {
    *committed |= piece.state == MEM_COMMIT;
    end = piece.to;
  }
  return end;
}

// Releases the allocation if it is whole in [from, to), or loft's and without memory.
void release_if_empty(uintptr_t allocation, uintptr_t from, uintptr_t to) {
  bool committed = false;
  const uintptr_t end = end_of_allocation(allocation, &committed);
  const bool within = from <= allocation && end <= to;
  if (!within && (committed || !ranges.contain(allocation, end))) return;
  if (ranges.remove(allocation, end)) VirtualFree(pointer(allocation), 0, MEM_RELEASE);
}

}  // namespace

bool is_no_other_memory(const void* p) {
  const KeepLastError keep;
  const uintptr_t page = round_down(reinterpret_cast<uintptr_t>(p), page_size());
  const Guard guard(ranges_lock);
  Piece piece;
  return ranges.contain(page, page + page_size()) ||
         (look_at_piece(page, page + 1, &piece) && piece.state == MEM_FREE);
}

size_t page_size() {
  // Relaxed: every thread finds the same number.
  static constinit Atomic<size_t> known{0};
  size_t size = known.load(memory_order_relaxed);
  if (size == 0) {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    size = system.dwPageSize;
    known.store(size, memory_order_relaxed);
  }
  return size;
}

void* reserve(size_t bytes) {
  const KeepLastError keep;
  map_calls.fetch_add(1, memory_order_relaxed);
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS);
}

bool unmap(void* at, size_t bytes) {
  const KeepLastError keep;
  const auto from = reinterpret_cast<uintptr_t>(at);
  const uintptr_t to = from + bytes;
  const Guard guard(ranges_lock);
  if (!decommit(from, to)) return false;
  uintptr_t last = 0;
  visit_pieces(from, to, [&](const Piece& piece) {
    if (piece.state != MEM_FREE && piece.allocation != last) {
      last = piece.allocation;
      release_if_empty(last, from, to);
    }
    return true;
  });
  return true;
}

bool commit(void* at, size_t bytes) {
  const KeepLastError keep;
  map_calls.fetch_add(1, memory_order_relaxed);
  return VirtualAlloc(at, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

Placed place(void* at, size_t bytes) {
  const KeepLastError keep;
  const auto from = reinterpret_cast<uintptr_t>(at);
  const uintptr_t to = from + bytes;
  const Guard guard(ranges_lock);
  bool is_free = true;
  const uintptr_t looked = visit_pieces(from, to, [&](const Piece& piece) {
    is_free = is_free && piece.state == MEM_FREE;
    return piece.state == MEM_FREE ||
           (piece.state == MEM_RESERVE && ranges.contain(piece.from, piece.to));
  });
  Piece way;
  if (looked != to) return look_at_piece(looked, to, &way) ? Placed::kOccupied : Placed::kNoMemory;
  // Another thread may have been faster, with memory of its own.
  if (fill(from, to)) return Placed::kYes;
  return is_free && look_at_piece(from, to, &way) && way.state != MEM_FREE ? Placed::kOccupied
                                                                           : Placed::kNoMemory;
}

bool place_zeros(void* at, size_t bytes) {
  if (place(at, bytes) != Placed::kYes) return false;
  const KeepLastError keep;
  DWORD before = 0;
  return VirtualProtect(at, bytes, PAGE_READONLY, &before) != 0;
}

bool has_memory_for(size_t bytes) {
  const KeepLastError keep;
  MEMORYSTATUSEX memory = {};
  memory.dwLength = sizeof(memory);
  return GlobalMemoryStatusEx(&memory) == 0 || bytes <= memory.ullAvailPageFile;
}

bool has_room_for(size_t bytes) { return has_memory_for(bytes); }

bool close(void* at, size_t bytes, bool /*is_zero*/) { return renew(at, bytes, true); }

bool renew(void* at, size_t bytes, bool closed) {
  const KeepLastError keep;
  const auto from = reinterpret_cast<uintptr_t>(at);
  const Guard guard(ranges_lock);
  return decommit(from, from + bytes) && (closed || fill(from, from + bytes));
}

bool advise(void*, size_t, Advice) { return false; }

// The pages have no memory for a moment; nobody else looks at them. The system has just been given
// what is asked for again, but another process may have taken it.
bool discard(void* at, size_t bytes, Proof) {
  const KeepLastError keep;
  discard_calls.fetch_add(1, memory_order_relaxed);
  const auto from = reinterpret_cast<uintptr_t>(at);
  const Guard guard(ranges_lock);
  if (!decommit(from, from + bytes)) return false;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (fill(from, from + bytes)) return true;
    doze();
  }
  fault(Text() << "the system does not give back " << uint64_t{bytes}
               << " bytes of memory that it was lent: it has no more");
}

bool move_pages(void*, void*, size_t) { return false; }
bool can_move_pages(bool) { return false; }

bool locks_mappings() { return false; }

size_t address_space_limit() { return kNoLimit; }

// To find out where the system places a range, it would be reserved, and Windows keeps a table for
// that as long as it lasts. The planned places are free.
bool may_try_long_mappings() { return false; }

Calls calls() {
  return {map_calls.load(memory_order_relaxed), discard_calls.load(memory_order_relaxed)};
}

}  // namespace loft::os
