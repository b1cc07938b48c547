#include "unwind/entry.h"

#include <cstddef>

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

// Mixes bytes into a number, eight at a time.
uint64_t mixed(uint64_t sum, const Bytes& bytes) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const uint8_t* at = bytes.at();
  auto left = static_cast<size_t>(bytes.end() - at);
  while (left != 0) {
    uint64_t word = left;
    const size_t part = left < sizeof word ? left : sizeof word;
    if (part == sizeof word) {
      __builtin_memcpy(&word, at, sizeof word);
    } else {
      for (size_t i = 0; i < part; ++i) word = word << 8 | at[i];
    }
    sum = (sum ^ word) * kOdd;
    sum ^= sum >> 32;
    at += part;
    left -= part;
  }
  return sum;
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

uint64_t fingerprint(const Image& image, const uint8_t* entry) {
  constexpr uint64_t kLongest = 512;  // of an entry; those of large functions have about 150
  const Bytes own = entry_at(image, reinterpret_cast<uintptr_t>(entry));
  Bytes start = own;
  const auto back = start.fixed<uint32_t>();
  if (start.failed() || start.at() == nullptr) return 0;
  const Bytes common = entry_at(image, reinterpret_cast<uintptr_t>(own.at()) - back);
  if (common.empty() || Section{own.at(), own.end()}.bytes() > kLongest ||
      Section{common.at(), common.end()}.bytes() > kLongest) {
    return 0;
  }
  return mixed(mixed(1, common), own) | 1;
}

}  // namespace loft::unwind
