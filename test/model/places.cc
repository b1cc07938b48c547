// Places of words under every interleaving: what stands behind a word has one owner at a time, and
// each owner sees what the one before it wrote.
#include "cache/places.h"

#include <new>

#include "engine.h"

namespace {

using Words = loft::Places<2>;

constexpr unsigned kObjects = 3;

alignas(Words) char memory[sizeof(Words)];
Words& words() { return *std::launder(reinterpret_cast<Words*>(memory)); }

// What the words 1 .. kObjects stand for: how often each was in somebody's hands.
unsigned uses[kObjects + 1];
unsigned expected;  // of all together
unsigned inside;    // words that should be there

void set_up() {
  new (memory) Words;
  for (unsigned& count : uses) count = 0;
  expected = 0;
  inside = 0;
}

void use(uint64_t word) {
  model::check(word >= 1 && word <= kObjects, "a word that nobody put in");
  model::plain_read(&uses[word]);
  const unsigned before = uses[word];
  model::plain_write(&uses[word]);
  uses[word] = before + 1;
  ++expected;
}

void put(uint64_t word) {
  use(word);
  if (words().put(word, 2)) ++inside;
}
void took(uint64_t word) {
  use(word);
  --inside;
}
void take() {
  if (const uint64_t word = words().take(); word != 0) took(word);
}
void take_and_put() {
  const uint64_t word = words().take();
  if (word == 0) return;
  took(word);
  put(word);
}
// As who looks for words that stay.
void look_and_remove() {
  for (unsigned place = 0; place < 2; ++place) {
    const uint64_t word = words().peek(place);
    if (word != 0 && words().remove(place, word)) took(word);
  }
}

std::function<void()> put_one(uint64_t word) {
  return [=] { put(word); };
}

// Each word that was put in was taken out, or is left.
void finish() {
  while (words().take() != 0) --inside;
  model::check(inside == 0, "a word was lost, or is there twice");
  unsigned sum = 0;
  for (const unsigned count : uses) sum += count;
  model::check(sum == expected, "two had one object at a time");
}

}  // namespace

int main(int argc, char** argv) {
  return model::explore_all({{"one puts, two take", set_up, {put_one(1), take, take}, finish},
                             {"two put, one takes", set_up, {put_one(1), put_one(2), take}, finish},
                             {"more than there is room for",
                              set_up,
                              {put_one(1), put_one(2), put_one(3), take},
                              finish,
                              3},
                             {"taken and put in again, while one looks",
                              set_up,
                              {put_one(1), take_and_put, look_and_remove},
                              finish},
                             {"put, taken, taken and put",
                              set_up,
                              {put_one(1), put_one(2), take_and_put, take},
                              finish,
                              3}},
                            argc, argv);
}
