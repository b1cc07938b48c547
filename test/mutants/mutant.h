// Which of the mutants in a build is alive. tools/mutants.py writes many into one build, has each
// file include this one, and runs the tests once for each mutant.
#pragma once

namespace loft::mutants {

// The mutant of the environment's MUTANT, or 0. Before the program's constructors none is alive.
extern int alive;
// A byte for each mutant, which is set where the program comes to it; shared with the tool and with
// children. Null if nobody asks.
extern unsigned char* reached;

// What the compiler reckons itself has no mistakes: it may be the size of an array.
constexpr bool is(int number) {
  if (__builtin_is_constant_evaluated()) return false;
  if (reached != nullptr) reached[number] = 1;
  return alive == number;
}

}  // namespace loft::mutants
