// Other choices than LeastGrownGoes of src/cache/profile.h: which of a set's two batches is sent
// when both places are taken and a third slab needs one. tools/variants.py puts these into the
// profile of the variants that are named after them. Called by the thread whose batches they are.

// It has gathered most and costs least per object to send (ISMM'24 3).
struct FullerGoes {
  static bool second(size_t /*set*/, Gathered first, Gathered second) {
    return second.now > first.now;
  }
};

// It has most room left: the other one may soon be full by itself.
struct EmptierGoes {
  static bool second(size_t /*set*/, Gathered first, Gathered second) {
    return second.now < first.now;
  }
};

// The one and the other by turns.
struct EachInTurn {
  static bool second(size_t set, Gathered /*first*/, Gathered /*second*/) {
    static __thread bool second_is_next[64];
    second_is_next[set] = !second_is_next[set];
    return !second_is_next[set];
  }
};
