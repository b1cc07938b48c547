// Other choices than FullerGoes of src/cache/profile.h: which of a set's two batches is sent when
// both places are taken and a third slab needs one. tools/variants.py puts these into the profile
// of the variants that are named after them. Called by the thread whose batches they are.

// It has most room left: the other one may soon be full by itself.
struct EmptierGoes {
  static bool second(size_t /*set*/, uint32_t in_first, uint32_t in_second) {
    const bool both_used = in_first != 0 && in_second != 0;
    return both_used ? in_second < in_first : in_first != 0;
  }
};

// The one and the other by turns.
struct EachInTurn {
  static bool second(size_t set, uint32_t in_first, uint32_t in_second) {
    static __thread bool second_is_next[64];
    if (in_first == 0 || in_second == 0) return in_first != 0;
    second_is_next[set] = !second_is_next[set];
    return !second_is_next[set];
  }
};

// The one that was opened last: the older one stays, until it is full.
struct NewestGoes {
  static bool second(size_t set, uint32_t in_first, uint32_t in_second) {
    static __thread bool newest_is_second[64];
    if (in_first == 0 || in_second == 0) newest_is_second[set] = in_first != 0;
    return newest_is_second[set];
  }
};
