// Call frame information: the sections are the input, in memory of exactly their length, whose ends
// the address sanitizer watches.
#include <memory>

#include "bytes.h"
#include "unwind/cfi.h"
#include "unwind/entry.h"

namespace {

using loft::unwind::Image;
using loft::unwind::Rule;

void check(const Image& image, const uint8_t* entry, uintptr_t pc) {
  const Rule rule = loft::unwind::rule_at(image, entry, pc);
  if (rule.kind() < Rule::kNone || rule.kind() > Rule::kUnknown) {
    fuzz::wrong("a rule of no kind: %llx", static_cast<unsigned long long>(rule.bits()));
  }
  if (rule.kind() != Rule::kFrame && rule.bits() != Rule::of(rule.kind()).bits()) {
    fuzz::wrong("more than a kind: %llx", static_cast<unsigned long long>(rule.bits()));
  }
  if (loft::unwind::rule_at(image, entry, pc).bits() != rule.bits()) fuzz::wrong("another rule");
  loft::unwind::CommonPrint common;
  const uint64_t print = loft::unwind::fingerprint(image, entry, &common);
  if (loft::unwind::fingerprint(image, entry, &common) != print) fuzz::wrong("another fingerprint");
}

}  // namespace

// Where the instruction is, from the beginning; how long the sorted table is; both sections, one
// behind the other. Code lies at the same addresses.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  const uint64_t place = bytes.number(2);
  const uint64_t sorted = bytes.number(2);
  const size_t head = size < 4 ? size : 4;
  const size_t count = size - head;
  const auto sections = std::make_unique<uint8_t[]>(count);
  std::copy(data + head, data + size, sections.get());
  const uint8_t* const begin = sections.get();
  Image image;
  image.header = {begin, begin + std::min<uint64_t>(sorted, count)};
  image.entries = {begin, begin + count};
  const auto from = reinterpret_cast<uintptr_t>(begin);
  for (const uintptr_t pc : {from + place, from, from + 1, from + count / 2, uintptr_t{0}}) {
    if (const uint8_t* entry = loft::unwind::find_entry(image, pc)) {
      if (!image.entries.holds(reinterpret_cast<uintptr_t>(entry))) fuzz::wrong("outside");
      check(image, entry, pc);
    }
    // And where no table leads.
    for (size_t i = 0; i < count; i += 1 + count / 16) check(image, begin + i, pc);
  }
  return 0;
}
