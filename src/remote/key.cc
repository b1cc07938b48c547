#include "remote/key.h"

#include "os/fault.h"
#include "slab/slab.h"
#include "space/pagemap.h"

namespace loft::messages {

constinit Key key;

namespace {

// Both halves of a product of 128 bits.
uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint32_t round(unsigned i, uint32_t half, uint64_t tweak) {
  return static_cast<uint32_t>(mix(half ^ tweak, key.rounds[i]));
}

// A seal's cipher is another one than that of links.
constexpr uint64_t kSealTweak = 0x9E3779B97F4A7C15u;

uintptr_t address(const Message* message) { return reinterpret_cast<uintptr_t>(message); }
constexpr unsigned kPointerBits = 48;
constexpr uint64_t kPointer = (uint64_t{1} << kPointerBits) - 1;
uint64_t with(uint16_t tag, uint64_t pointer) { return uint64_t{tag} << kPointerBits | pointer; }

[[noreturn]] LOFT_COLD void report_overwritten(uintptr_t message) {
  os::fault(
      Text() << "write after free: the link is not the one written to the message of returned "
                "objects in "
             << reinterpret_cast<const void*>(message));
}

uint64_t* seal_in(Message* message) { return reinterpret_cast<uint64_t*>(message) + 1; }

}  // namespace

void set_key(const uint64_t (&secrets)[kSecrets], size_t behind) {
  key.on = true;
  key.head = kKeyedHead;
  key.around = static_cast<uint16_t>(kKeyedHead + behind);
  key.most_records = kKeyedRecords;
  unsigned next = 0;
  for (uint64_t& secret : key.binding) secret = secrets[next++];
  // Odd ones: no factor of a product loses a bit.
  key.seal = secrets[next++] | 1;
  for (uint64_t& secret : key.rounds) secret = secrets[next++] | 1;
}

// Sender, forwarder and owner compute the same value. The slab of an object under way is not
// released, and whoever has the object has seen the slab made. The object's count rises only when
// this very message arrives; whoever sends the object next got it from the owner after that.
uint64_t binding_of(uintptr_t carrier) {
  const auto* const p = reinterpret_cast<const void*>(carrier);
  uint64_t use = 0;
  const uint64_t position = pagemap.position(p);
  if (LOFT_LIKELY(pagemap.limit.contains(position))) {
    const Entry entry = pagemap.at_position(position);
    if (LOFT_LIKELY(entry.is_slab())) {
      const Slab* slab = slab::at(entry);
      const uint32_t object = slab->object_starting_at(p);
      if (LOFT_LIKELY(object != kNoObject)) use = slab->use_of(object);
    }
  }
  return mix(carrier ^ key.binding[0], use ^ key.binding[1]);
}

uint64_t encipher(uint64_t block, uint64_t tweak) {
  auto left = static_cast<uint32_t>(block >> 32);
  auto right = static_cast<uint32_t>(block);
  left ^= round(0, right, tweak);
  right ^= round(1, left, tweak);
  left ^= round(2, right, tweak);
  right ^= round(3, left, tweak);
  return uint64_t{left} << 32 | right;
}

uint64_t decipher(uint64_t block, uint64_t tweak) {
  auto left = static_cast<uint32_t>(block >> 32);
  auto right = static_cast<uint32_t>(block);
  right ^= round(3, left, tweak);
  left ^= round(2, right, tweak);
  right ^= round(1, left, tweak);
  left ^= round(0, right, tweak);
  return uint64_t{left} << 32 | right;
}

uint64_t encipher_link(uintptr_t carrier, uint64_t link) {
  return encipher(link, binding_of(carrier));
}
uint64_t decipher_link(uintptr_t carrier, uint64_t word) {
  return decipher(word, binding_of(carrier));
}

uint64_t relink(uintptr_t carrier, uint64_t word, uintptr_t next) {
  const uint64_t binding = binding_of(carrier);
  const uint64_t link = decipher(word, binding);
  if (LOFT_UNLIKELY((link & kPointer) != (carrier | 1))) report_overwritten(carrier);
  return encipher((link & ~kPointer) | next, binding);
}

uint64_t retag(uintptr_t carrier, uint64_t word, uint16_t before, uint16_t tag) {
  const uint64_t binding = binding_of(carrier);
  const uint64_t link = decipher(word, binding);
  if (LOFT_UNLIKELY(link >> kPointerBits != before)) report_overwritten(carrier);
  return encipher(with(tag, link & kPointer), binding);
}

uint64_t add_word(uint64_t state, uint64_t word) { return mix(state ^ word, key.seal); }

uint64_t finish_seal(uint64_t state, uint16_t tag, uint64_t binding) {
  return encipher(add_word(state, tag), binding ^ kSealTweak);
}

void write_seal(Message* message, uint16_t tag, uint64_t state) {
  *seal_in(message) = finish_seal(state, tag, binding_of(address(message)));
}

uint64_t seal(Message* message, uint16_t tag, const uint64_t* words, unsigned count) {
  const uint64_t binding = binding_of(address(message));
  uint64_t state = binding;
  for (unsigned i = 0; i < count; ++i) state = add_word(state, words[i]);
  *seal_in(message) = finish_seal(state, tag, binding);
  return encipher(with(tag, address(message) | 1), binding);
}

// Each word is read once: a program's thread may be writing there.
bool copy_sealed(const Message* message, uint16_t tag, uint64_t* copy, unsigned count) {
  const auto* const words = reinterpret_cast<const uint64_t*>(message) + 1;
  const uint64_t found = __atomic_load_n(words, __ATOMIC_RELAXED);
  const uint64_t binding = binding_of(address(message));
  uint64_t state = binding;
  for (unsigned i = 0; i < count; ++i) {
    copy[i] = __atomic_load_n(words + 1 + i, __ATOMIC_RELAXED);
    state = add_word(state, copy[i]);
  }
  return found == finish_seal(state, tag, binding);
}

}  // namespace loft::messages
