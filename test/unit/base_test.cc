// The lowest floor: bits, size classes, lists, text, the defaults of the options.
#include <gtest/gtest.h>

#include <bitset>
#include <list>
#include <random>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/list.h"
#include "base/options.h"
#include "base/size_class.h"
#include "base/text.h"

namespace loft {
namespace {

unsigned count_one_by_one(uint64_t n) {
  unsigned count = 0;
  for (; n != 0; n >>= 1) count += n & 1;
  return count;
}

TEST(Bits, PowersOfTwo) {
  EXPECT_FALSE(is_power_of_two(0));
  for (unsigned i = 0; i < 64; ++i) {
    const size_t n = size_t{1} << i;
    EXPECT_TRUE(is_power_of_two(n));
    if (i > 1) {
      EXPECT_FALSE(is_power_of_two(n - 1));
      EXPECT_FALSE(is_power_of_two(n + 1));
    }
  }
}

TEST(Bits, Rounding) {
  for (size_t alignment = 1; alignment <= 128; alignment *= 2) {
    for (uintptr_t n = 0; n < 1000; ++n) {
      EXPECT_EQ(round_up(n, alignment), (n + alignment - 1) / alignment * alignment);
      EXPECT_EQ(round_down(n, alignment), n / alignment * alignment);
    }
  }
}

TEST(Bits, LowestAndHighest) {
  for (unsigned low = 0; low < 64; ++low) {
    for (unsigned high = low; high < 64; ++high) {
      const uint64_t n = uint64_t{1} << low | uint64_t{1} << high;
      EXPECT_EQ(lowest_bit(n), low);
      EXPECT_EQ(highest_bit(n), high);
    }
  }
}

TEST(Bits, CountOfEveryRun) {
  for (unsigned first = 0; first < 64; ++first) {
    for (unsigned last = first; last < 64; ++last) {
      const uint64_t run = (~uint64_t{0} >> (63 - last)) & (~uint64_t{0} << first);
      EXPECT_EQ(count_bits(run), last - first + 1);
      EXPECT_EQ(count_bits(~run), 64 - (last - first + 1));
    }
  }
  EXPECT_EQ(count_bits(0), 0u);
}

// Every 16-bit pattern, at every place and beside itself: each step of the parallel sums sees all
// of its inputs.
TEST(Bits, CountOfEveryPattern) {
  for (uint64_t pattern = 0; pattern < 65536; ++pattern) {
    const unsigned bits = count_one_by_one(pattern);
    for (unsigned shift = 0; shift < 64; shift += 16) {
      ASSERT_EQ(count_bits(pattern << shift), bits) << pattern << " << " << shift;
    }
    ASSERT_EQ(count_bits(pattern * 0x0001000100010001u), 4 * bits) << pattern;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t n = random();
    ASSERT_EQ(count_bits(n), std::bitset<64>(n).count()) << n;
  }
}

TEST(Bits, OneOfSixteenNumbers) {
  uint16_t numbers[16] = {};
  EXPECT_EQ(find_in_sixteen(numbers, 0), 0u);
  EXPECT_EQ(find_in_sixteen(numbers, 1), 16u);
  for (unsigned i = 0; i < 16; ++i) numbers[i] = static_cast<uint16_t>(i * 4095);
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(find_in_sixteen(numbers, i * 4095), i);
  EXPECT_EQ(find_in_sixteen(numbers, 15 * 4095 - 256), 16u);
  numbers[3] = numbers[12];
  EXPECT_EQ(find_in_sixteen(numbers, numbers[12]), 3u);
}

TEST(Bits, LeastMostClamp) {
  EXPECT_EQ(least(1, 2), 1);
  EXPECT_EQ(least(2, 1), 1);
  EXPECT_EQ(most(1, 2), 2);
  EXPECT_EQ(most(2, 1), 2);
  EXPECT_EQ(clamp(0, 3, 5), 3);
  EXPECT_EQ(clamp(4, 3, 5), 4);
  EXPECT_EQ(clamp(9, 3, 5), 5);
}

TEST(SizeClasses, GrowAndAreAligned) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    EXPECT_EQ(class_size(c) % 16, 0u) << c;
    if (c != 0) {
      EXPECT_GT(class_size(c), class_size(c - 1)) << c;
    }
  }
}

TEST(SizeClasses, SmallestThatFitsForEverySize) {
  for (size_t size = 1; size <= kSmallMax; ++size) {
    const SizeClass c = class_of(size);
    ASSERT_LT(c, kSizeClasses) << size;
    ASSERT_GE(class_size(c), size);
    if (c != 0) {
      ASSERT_LT(class_size(c - 1), size);
    }
    ASSERT_GE(c, class_of(size == 1 ? 1 : size - 1)) << size;
    // What rounding up loses: fewer than 16 bytes, or less than a fifth of the object.
    const size_t lost = class_size(c) - size;
    ASSERT_TRUE(lost < 16 || lost * 5 < class_size(c)) << size;
  }
}

// allocate_aligned relies on it.
TEST(SizeClasses, OfAMultipleOfAnAlignmentIsAMultipleOfIt) {
  for (size_t alignment = kMinObject; alignment <= kSmallMax; alignment *= 2) {
    EXPECT_EQ(class_size(class_of(alignment)), alignment);
    for (size_t size = alignment; size <= kSmallMax; size += alignment) {
      ASSERT_EQ(class_size(class_of(size)) % alignment, 0u) << size << " by " << alignment;
    }
  }
}

TEST(SizeClasses, WholeCacheLines) {
  for (SizeClass c = 0; c < kSizeClasses; ++c) {
    EXPECT_EQ(fills_cache_lines(c), class_size(c) % 64 == 0) << class_size(c);
  }
}

struct Node {
  int value;
  Node* next;
  Node* prev;
};

std::vector<int> values_of(const List<Node>& list) {
  std::vector<int> values;
  const Node* before = nullptr;
  for (const Node* n = list.front(); n != nullptr; n = n->next) {
    EXPECT_EQ(n->prev, before);
    values.push_back(n->value);
    before = n;
  }
  return values;
}

TEST(List, AgainstTheStandardLibrary) {
  std::mt19937 random(2);
  std::vector<Node> nodes(20);
  for (int i = 0; i < 20; ++i) nodes[static_cast<size_t>(i)].value = i;
  List<Node> list;
  std::list<int> model;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  for (int step = 0; step < 10'000; ++step) {
    Node& node = nodes[random() % nodes.size()];
    const auto place = std::find(model.begin(), model.end(), node.value);
    if (place == model.end()) {
      list.push_front(&node);
      model.push_front(node.value);
    } else {
      list.remove(&node);
      model.erase(place);
      ASSERT_EQ(node.next, nullptr);
      ASSERT_EQ(node.prev, nullptr);
    }
    ASSERT_EQ(values_of(list), std::vector<int>(model.begin(), model.end()));
    ASSERT_EQ(list.empty(), model.empty());
  }
}

std::string string_of(const Text& text) { return {text.data(), text.size()}; }

TEST(Text, Numbers) {
  for (const uint64_t n :
       {uint64_t{0}, uint64_t{7}, uint64_t{10}, uint64_t{1234567890}, UINT64_MAX}) {
    EXPECT_EQ(string_of(Text() << n), std::to_string(n));
  }
}

TEST(Text, Pointers) {
  const auto pointer = [](uintptr_t n) { return reinterpret_cast<const void*>(n); };
  EXPECT_EQ(string_of(Text() << pointer(0)), "0x0");
  EXPECT_EQ(string_of(Text() << pointer(0xf)), "0xf");
  EXPECT_EQ(string_of(Text() << pointer(0x10)), "0x10");
  EXPECT_EQ(string_of(Text() << pointer(0x7f00deadbe01)), "0x7f00deadbe01");
  EXPECT_EQ(string_of(Text() << pointer(UINTPTR_MAX)), "0xffffffffffffffff");
}

TEST(Text, Joined) {
  EXPECT_EQ(string_of(Text()), "");
  EXPECT_EQ(string_of(Text() << "" << "a " << uint64_t{12} << " b"), "a 12 b");
}

TEST(Text, LongLinesAreCut) {
  const std::string long_line(Text::kCapacity - 2, 'x');
  Text text;
  text << long_line.c_str() << uint64_t{12345};
  EXPECT_EQ(string_of(text), long_line + "12");
  text << "more" << static_cast<const void*>(nullptr);
  EXPECT_EQ(string_of(text), long_line + "12");
}

TEST(Options, Defaults) {
  const Options fresh;
  EXPECT_EQ(get(fresh.stats), 0u);
  EXPECT_EQ(get(fresh.misuse), 0u);
#define LOFT_DEFAULT(kind, name, value, choices, help)        \
  EXPECT_EQ(get(options.name), static_cast<uint64_t>(value)); \
  EXPECT_EQ(get(fresh.name), static_cast<uint64_t>(value));   \
  EXPECT_EQ(*choices == 0, OptionKind::kind != OptionKind::kChoice) << #name;
  LOFT_OPTIONS(LOFT_DEFAULT)
#undef LOFT_DEFAULT
}

}  // namespace
}  // namespace loft
