// The secrets of hardened=full: those of the tags, which last as long as the process, and the seeds
// of the order in which cells are handed out, which the child of a fork makes anew.
#pragma once

#include <cstdint>

namespace loft::hardened {

// Before the first tag is made. False if the system refuses.
bool make_secrets();

// A seed for a generator of its own.
uint64_t seed();

// The next number of a generator whose state is *state. Good enough for an order that nobody can
// guess without reading the state, which lies apart from all objects.
inline uint64_t next_random(uint64_t* state) {
  *state += 0x9E3779B97F4A7C15u;
  uint64_t x = *state;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// One of the numbers below `end`.
inline uint32_t below(uint64_t* state, uint32_t end) {
  return static_cast<uint32_t>((next_random(state) >> 32) * end >> 32);
}

}  // namespace loft::hardened
