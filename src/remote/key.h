// Keyed messages: what protects a message when the library is hardened (hardened=guard and full). A
// message lies in a freed object, where a program that misuses the heap may read and write. Such a
// program must not make the owner accept objects that are not free, and must not learn addresses.
//
//   link     enciphered as a whole, with what the carrier is bound to (below) as a tweak: it shows
//            nothing, and another value leads nowhere, rather than somewhere else
//   seal     behind the link: 64 bits over the tag and the payload, bound in the same way
//   payload  behind the seal, as without a key (remote/message.h)
//
// Both are bound to secrets of the process, the carrier's address, its slab, and how often a
// message arrived in it before (Slab::use_of). So neither what another message holds is valid here,
// nor what this object held in another life.
//
// The sender makes the seal of the words that it knows, not of those that it finds in the object.
// The owner copies the payload, checks the copy, and goes on with that.
//
// Without a key, the one cost is a branch where a link is read or written: the rest is out of line.
// The functions withstand who can read and write freed memory, as well as 64 bits can and without a
// proof: they are built of multiplications, and are no cryptographic ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

namespace loft {

struct Message;

// In one message. More would only lengthen the time between two checks of a drain's budget.
inline constexpr uint16_t kMaxRecords = 127;

namespace messages {

// Constant once the program has a second thread, and the same in the child of a fork, whose inboxes
// hold messages of its parent's. In one cache line.
struct alignas(64) Key {
  bool on = false;
  uint16_t head = 8;    // bytes in front of a payload
  uint16_t around = 8;  // and with those at the end of an object that no message may use
  uint16_t most_records = kMaxRecords;
  uint64_t binding[2] = {};
  uint64_t seal = 0;
  uint64_t rounds[4] = {};
};
static_assert(sizeof(Key) == 64);
extern constinit LOFT_HIDDEN Key key;

inline constexpr size_t kKeyedHead = 16;
// The words of a payload with a seal: its copy lies on the stack of the owner.
inline constexpr unsigned kMostPayload = 64;
inline constexpr uint16_t kKeyedRecords = kMostPayload / 2;

inline bool keyed() { return LOFT_UNLIKELY(key.on); }
inline size_t head() { return key.head; }
inline size_t around() { return key.around; }

// Messages are keyed from now on, with these secrets. None may be under way:
// registry::key_messages. `behind`: the bytes at the end of each object that no message may use.
inline constexpr unsigned kSecrets = 7;
void set_key(const uint64_t (&secrets)[kSecrets], size_t behind);

// What the link and the seal of a message in this object are bound to.
uint64_t binding_of(uintptr_t carrier);

// A block cipher of 64 bits: four Feistel rounds.
uint64_t encipher(uint64_t block, uint64_t tweak);
uint64_t decipher(uint64_t block, uint64_t tweak);
uint64_t encipher_link(uintptr_t carrier, uint64_t link);
uint64_t decipher_link(uintptr_t carrier, uint64_t word);

// See relinked and retagged (remote/message.h). Stop the program if `word` does not stand for an
// end, or for a link with the tag `before`.
uint64_t relink(uintptr_t carrier, uint64_t word, uintptr_t next);
uint64_t retag(uintptr_t carrier, uint64_t word, uint16_t before, uint16_t tag);

// The seal of a message that grows: its state begins as binding_of, and takes in word by word.
uint64_t add_word(uint64_t state, uint64_t word);
uint64_t finish_seal(uint64_t state, uint16_t tag, uint64_t binding);
void write_seal(Message* message, uint16_t tag, uint64_t state);

// Writes the seal of a message of these words. Returns the word for its end.
uint64_t seal(Message* message, uint16_t tag, const uint64_t* words, unsigned count);

// Copies the payload. False if the seal is not that of the copy.
bool copy_sealed(const Message* message, uint16_t tag, uint64_t* copy, unsigned count);

}  // namespace messages
}  // namespace loft
