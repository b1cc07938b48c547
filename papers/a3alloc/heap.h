// The heaps of a3alloc and of Hoard, and their superblocks: lists by class and by fullness.
#pragma once

#include <cstddef>
#include <cstdint>

#include "a3alloc/config.h"
#include "engine/spin_lock.h"

namespace engine {

inline constexpr size_t kSuperblock = size_t{1} << Config::kSuperblockLog;
inline constexpr unsigned kMostHeaps = 256;  // the owner is a byte (2.2)
inline constexpr unsigned kPlaces = 512;     // of the bitmap

// 2.2, field for field, less the lock: the heap's guards it.
// Invariant: `in_use` is the size of the class times the bits set, of those that are blocks.
struct Superblock {
  uint32_t in_use;     // bytes, without the header
  uint8_t group;       // its list in the heap
  uint8_t size_class;  // or kHuge
  uint8_t owner;       // the heap; 0 is the global one
  uint8_t unused;
  uint64_t bitmap[kPlaces / 64];  // set: in use
  Superblock* next;
  Superblock* prev;
  uint64_t pages;  // superblocks in a row
};
static_assert(sizeof(Superblock) == kHeader && kHeader % 16 == 0);
inline constexpr uint8_t kHuge = Config::kClasses;

constexpr size_t size_of(unsigned size_class) { return Config::size_of(size_class); }
constexpr unsigned blocks_of(unsigned size_class) {
  return static_cast<unsigned>(Config::block_of(kSuperblock - kHeader, size_class));
}
static_assert(blocks_of(Config::class_of(1)) <= kPlaces);

// The bytes of all blocks of a class, looked up: no division (4.2).
struct Capacities {
  uint32_t of[Config::kClasses]{};
  constexpr Capacities() {
    for (unsigned c = 0; c < Config::kClasses; ++c) {
      of[c] = static_cast<uint32_t>(blocks_of(c) * size_of(c));
    }
  }
};
inline constexpr Capacities kCapacities{};

inline bool is_full(const Superblock& superblock) {
  return superblock.in_use == kCapacities.of[superblock.size_class];
}
// 2.4: which quarter is in use, in blocks: a superblock of one block is empty or full. The totally
// full are a fifth group, or belong to the last quarter.
inline unsigned group_of(const Superblock& superblock) {
  const uint32_t quarters = 4 * superblock.in_use / kCapacities.of[superblock.size_class];
  return loft::least(quarters, Config::kGroups - 1);
}

// Invariant: `in_use` and `allocated` are the sums over the superblocks in `bins`, each of which
// has this heap as its owner.
struct alignas(64) Heap {
  SpinLock lock;
  size_t in_use;     // u_i in Hoard
  size_t allocated;  // a_i
  Superblock* bins[Config::kClasses][Config::kGroups];

  void insert(Superblock* superblock) {
    Superblock*& first = bins[superblock->size_class][superblock->group];
    superblock->prev = nullptr;
    superblock->next = first;
    if (first != nullptr) first->prev = superblock;
    first = superblock;
  }
  void remove(Superblock* superblock) {
    if (superblock->next != nullptr) superblock->next->prev = superblock->prev;
    if (superblock->prev != nullptr) {
      superblock->prev->next = superblock->next;
    } else {
      bins[superblock->size_class][superblock->group] = superblock->next;
    }
  }

  // A superblock with space, most full first. Where the totally full have no group of their own, it
  // searches among them (2.4).
  Superblock* with_space(unsigned size_class) const {
    for (unsigned group = 4; group-- != 0;) {
      for (Superblock* each = bins[size_class][group]; each != nullptr; each = each->next) {
        if (!is_full(*each)) return each;
      }
    }
    return nullptr;
  }

  // To another list if the group has changed; else to the front of its own, if it was freed into
  // (2.2.2).
  void refile(Superblock* superblock, bool freed) {
    const unsigned group = group_of(*superblock);
    if (group == superblock->group && !freed) return;
    remove(superblock);
    superblock->group = static_cast<uint8_t>(group);
    insert(superblock);
  }

  // Moves a superblock in or out, under the locks of both heaps, or of the one that there is.
  void adopt(uint8_t self, Superblock* superblock) {
    // Relaxed: whoever reads it without the lock looks again once it holds the lock (lock_owner).
    __atomic_store_n(&superblock->owner, self, __ATOMIC_RELAXED);
    in_use += superblock->in_use;
    allocated += kSuperblock;
    insert(superblock);
  }
  void abandon(Superblock* superblock) {
    remove(superblock);
    in_use -= superblock->in_use;
    allocated -= kSuperblock;
  }
};

}  // namespace engine
