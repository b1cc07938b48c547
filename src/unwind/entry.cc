#include "unwind/entry.h"

#include <cstddef>

#include "base/macros.h"
#include "unwind/expression.h"

namespace loft::unwind {

namespace {

// The forms that linkers write the sorted table in: numbers of 4 bytes that count from the table's
// beginning. Others would have to be searched from front to back.
constexpr uint8_t kHeaderVersion = 1, kCountForm = 0x03, kTableForm = 0x3b, kNoAddress = 0xff;
constexpr size_t kPair = 8;

// A length, and behind it so many bytes: one entry of either kind. Empty where it is malformed; the
// 64-bit form, which nobody needs, counts as that.
Bytes entry_at(const Image& image, uintptr_t at) {
  if (!image.entries.holds(at)) return {};
  Bytes bytes(image.entries.begin + (at - reinterpret_cast<uintptr_t>(image.entries.begin)),
              image.entries.end);
  const auto length = bytes.fixed<uint32_t>();
  return bytes.part(length);
}

int64_t number_at(const uint8_t* at) {
  int32_t number = 0;
  __builtin_memcpy(&number, at, sizeof number);
  return number;
}

template <class T>
T load(const uint8_t* at) {
  T number;
  __builtin_memcpy(&number, at, sizeof number);
  return number;
}

constexpr size_t kLength = sizeof(uint32_t);  // of what stands before an entry
// Where a print is asked for often: functions of 400 instructions have entries of about 150 bytes.
constexpr size_t kLongestPrinted = 512, kShortestPrinted = 12;

// Mixes the bytes of an entry into a number. 0 if it is malformed, too long or too short.
uint64_t mixed(const Image& image, const uint8_t* entry, uint64_t sum) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const auto mix = [&sum](uint64_t word) {
    sum = (sum ^ word) * kOdd;
    sum ^= sum >> 32;
  };
  const uintptr_t at = reinterpret_cast<uintptr_t>(entry);
  if (!image.entries.holds(at)) return 0;
  const auto room = static_cast<size_t>(image.entries.end - entry);
  if (room < kLength + kShortestPrinted) return 0;
  const size_t length = load<uint32_t>(entry);
  if (length < kShortestPrinted || length > kLongestPrinted || length > room - kLength) return 0;
  const uint8_t* const from = entry + kLength;
  for (size_t i = 0; i + sizeof(uint64_t) < length; i += sizeof(uint64_t)) {
    mix(load<uint64_t>(from + i));
  }
  // The last word, of which some may have been mixed before; so its length counts, too.
  mix(load<uint64_t>(from + length - sizeof(uint64_t)) + length);
  return sum | 1;
}

}  // namespace

bool Common::read(Bytes bytes) {
  if (bytes.fixed<uint32_t>() != 0) return false;
  const uint8_t version = bytes.byte();
  if (version != 1 && version != 3 && version != 4) return false;
  const uint8_t* const letters = bytes.at();
  while (bytes.byte() != 0) {
  }
  if (version == 4) bytes.skip(2);  // the widths of addresses and of segments
  code_unit = bytes.number();
  data_unit = bytes.signed_number();
  const uint64_t return_register = version == 1 ? bytes.byte() : bytes.number();
  if (bytes.failed() || return_register != Described::kPc) return false;
  const uint8_t* letter = letters;
  if (*letter == 'z') {
    has_extra_length = true;
    ++letter;
    const uint64_t length = bytes.number();
    Bytes extra = bytes.part(length);
    for (; *letter != 0; ++letter) {
      if (*letter == 'R') {
        address_form = extra.byte();
      } else if (*letter == 'P') {
        const uint8_t form = extra.byte();  // a function for exceptions
        if (form != kNoAddress) extra.address(form);
      } else if (*letter == 'L') {
        extra.byte();
      } else if (*letter == 'S') {
        signal = true;
      } else {
        return false;
      }
    }
    if (extra.failed()) return false;
  } else if (*letter != 0) {
    return false;
  }
  instructions = bytes;
  return !bytes.failed();
}

bool Function::read(const Image& image, const uint8_t* entry, uintptr_t pc) {
  Bytes bytes = entry_at(image, reinterpret_cast<uintptr_t>(entry));
  const auto here = reinterpret_cast<uintptr_t>(bytes.at());
  const auto back = bytes.fixed<uint32_t>();  // to the common entry
  if (bytes.failed() || back == 0 || !common.read(entry_at(image, here - back))) return false;
  if ((common.address_form & 0x80) != 0) return false;
  begin = bytes.address(common.address_form);
  const uintptr_t length = bytes.address(common.address_form & 0x0f);
  if (common.has_extra_length) bytes.skip(bytes.number());
  instructions = bytes;
  return !bytes.failed() && pc - begin < length;
}

const uint8_t* find_entry(const Image& image, uintptr_t pc) {
  Bytes header(image.header);
  if (header.byte() != kHeaderVersion) return nullptr;
  const uint8_t entries_form = header.byte();
  if (header.byte() != kCountForm || header.byte() != kTableForm) return nullptr;
  if (entries_form != kNoAddress) header.address(entries_form);
  const size_t count = header.fixed<uint32_t>();
  if (header.failed() || count == 0 || count > Section{header.at(), header.end()}.bytes() / kPair) {
    return nullptr;
  }
  // Each pair is where a function begins, and where its entry does.
  const uint8_t* const table = header.at();
  const auto from = reinterpret_cast<uintptr_t>(image.header.begin);
  const auto wanted = static_cast<int64_t>(pc - from);
  size_t low = 0;
  for (size_t high = count; high - low > 1;) {
    const size_t middle = low + (high - low) / 2;
    if (number_at(table + middle * kPair) <= wanted) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const uint8_t* const pair = table + low * kPair;
  if (number_at(pair) > wanted) return nullptr;
  const uintptr_t at = from + static_cast<uintptr_t>(number_at(pair + sizeof(int32_t)));
  return image.entries.holds(at) ? reinterpret_cast<const uint8_t*>(at) : nullptr;
}

uint64_t fingerprint(const Image& image, const uint8_t* entry, CommonPrint* last) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(entry);
  if (!image.entries.holds(at) || !image.entries.holds(at + 2 * kLength - 1)) return 0;
  const uintptr_t common = at + kLength - load<uint32_t>(entry + kLength);
  if (LOFT_UNLIKELY(common != last->at)) {
    last->at = common;
    last->print =
        image.entries.holds(common) ? mixed(image, reinterpret_cast<const uint8_t*>(common), 1) : 0;
  }
  return last->print == 0 ? 0 : mixed(image, entry, last->print);
}

}  // namespace loft::unwind
