// Call frame information byte by byte, and the rules that are kept of it.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "unwind/cfi.h"
#include "unwind/entry.h"
#include "unwind/expression.h"
#include "unwind/rule_cache.h"

namespace loft::unwind {
namespace {

using namespace std::string_literals;

// ---- The sections of a library with one function ----

std::string word(uint32_t number) { return {reinterpret_cast<const char*>(&number), 4}; }
std::string byte(size_t number) { return {static_cast<char>(number)}; }
std::string part(const std::string& bytes) { return byte(bytes.size()) + bytes; }
std::string entry(std::string bytes) {
  while (bytes.size() % 4 != 0) bytes += '\0';
  return word(static_cast<uint32_t>(bytes.size())) + bytes;
}

// The CFA is at rsp + 8, the return address below it.
constexpr char kFirst[] = "\x0c\x07\x08\x90\x01";

// The function is as long as the sections are wide, and lies at their addresses.
class Library {
 public:
  static constexpr size_t kCode = 64;

  explicit Library(const std::string& instructions, const std::string& letters = "zR",
                   const std::string& extra = "\x1b", const std::string& first = kFirst) {
    const std::string common =
        entry(word(0) + "\x01" + letters + "\0\x01\x78\x10"s + part(extra) + first);
    const auto at = static_cast<uint32_t>(kTable + common.size());
    const std::string table = "\x01\x1b\x03\x3b"s + word(kTable - 4) + word(1) + word(0) + word(at);
    set(table + common +
        entry(word(at + 4 - kTable) + word(~(at + 8) + 1) + word(kCode) + "\0"s + instructions));
  }

  // In memory of exactly that length, whose ends a sanitizer watches.
  void set(const std::string& bytes) {
    bytes_ = bytes;
    memory_ = std::make_unique<uint8_t[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), memory_.get());
    image_.header = {memory_.get(), memory_.get() + std::min(kTable, bytes.size())};
    image_.entries = {memory_.get(), memory_.get() + bytes.size()};
  }

  const std::string& bytes() const { return bytes_; }
  const Image& image() const { return image_; }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(memory_.get()); }

  Rule at(size_t offset) const {
    const uint8_t* const found = find_entry(image_, begin() + offset);
    return found == nullptr ? Rule() : rule_at(image_, found, begin() + offset);
  }
  uint64_t print() const {
    CommonPrint none;
    return fingerprint(image_, find_entry(image_, begin()), &none);
  }

 private:
  static constexpr size_t kTable = 20;

  std::string bytes_;
  std::unique_ptr<uint8_t[]> memory_;
  Image image_;
};

void expect_cfa(const Rule& rule, Rule::Base base, int64_t offset) {
  EXPECT_EQ(rule.kind(), Rule::kFrame);
  EXPECT_EQ(rule.get(Rule::kBase), base);
  EXPECT_EQ(rule.get(Rule::kOffset), offset);
}

void expect_frame_at(const Rule& rule, Rule::Place place, int64_t offset) {
  EXPECT_EQ(rule.get(Rule::kFramePlace), place);
  EXPECT_EQ(rule.get(Rule::kFrameOffset), offset);
}

// push rbp, of one byte; mov rbp, rsp, of three.
constexpr char kPushRbp[] = "\x41\x0e\x10\x86\x02\x43\x0d\x06";

TEST(Cfi, AFunctionFromItsFirstInstructionToItsLast) {
  // pop rbp and ret after 32 bytes, and then as before.
  const Library library(kPushRbp + "\x5c\x0a\xc6\x0c\x07\x08\x41\x0b"s);
  expect_cfa(library.at(0), Rule::kStackPointer, 1);
  expect_frame_at(library.at(0), Rule::kSame, 0);
  for (const size_t offset : {1, 3}) {
    expect_cfa(library.at(offset), Rule::kStackPointer, 2);
    expect_frame_at(library.at(offset), Rule::kAtCfa, -2);
  }
  for (const size_t offset : {4, 31, 33, 63}) {
    expect_cfa(library.at(offset), Rule::kFramePointer, 2);
    expect_frame_at(library.at(offset), Rule::kAtCfa, -2);
  }
  expect_cfa(library.at(32), Rule::kStackPointer, 1);
  expect_frame_at(library.at(32), Rule::kSame, 0);
  // Behind the function, and before it.
  EXPECT_EQ(library.at(64).kind(), Rule::kNone);
  EXPECT_EQ(find_entry(library.image(), library.begin() - 1), nullptr);
}

TEST(Cfi, LongForms) {
  // Each of an advance by 1; 2 and 4 bytes; registers by number, offsets with signs.
  const Library library("\x02\x01\x05\x06\x03"s + "\x03\x01\0\x11\x06\x7e"s +
                        "\x04\x01\0\0\0\x12\x07\x7c"s + "\x41\x2f\x03\x02" + "\x41\x13\x7a" +
                        "\x41\x06\x06" + "\x41\x2e\x10\x09\x03\x06");
  expect_frame_at(library.at(1), Rule::kAtCfa, -3);
  expect_frame_at(library.at(2), Rule::kAtCfa, 2);
  expect_cfa(library.at(3), Rule::kStackPointer, 4);
  EXPECT_EQ(library.at(4).get(Rule::kRbxPlace), Rule::kAtCfa);
  EXPECT_EQ(library.at(4).get(Rule::kRbxOffset), 2);
  expect_cfa(library.at(5), Rule::kStackPointer, 6);
  expect_frame_at(library.at(6), Rule::kSame, 0);
  EXPECT_EQ(library.at(7).get(Rule::kRbxPlace), Rule::kLost);
}

TEST(Cfi, WhatARuleCannotSay) {
  const Library by_r12("\x0c\x0c\x08");
  EXPECT_EQ(by_r12.at(0).kind(), Rule::kUnknown);
  const Library half_a_word("\x0e\x0c");
  EXPECT_EQ(half_a_word.at(0).kind(), Rule::kUnknown);
  const Library long_frame("\x0e\x80\x80\x80\x80\x01");
  EXPECT_EQ(long_frame.at(0).kind(), Rule::kUnknown);
  const Library return_elsewhere("\x90\x02");
  EXPECT_EQ(return_elsewhere.at(0).kind(), Rule::kUnknown);
  const Library far_register("\x86\x80\x40");
  expect_frame_at(far_register.at(0), Rule::kLost, 0);
  const Library outermost("\x07\x10");
  EXPECT_EQ(outermost.at(0).kind(), Rule::kOutermost);
}

TEST(Cfi, AProcedureLinkageTable) {
  // rsp + 8, and 8 more in the last five bytes of every sixteen.
  const Library library("\x0f"s + part("\x77\x08\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22"s));
  for (size_t i = 0; i < Library::kCode; ++i) {
    const int64_t pushed = (library.begin() + i) % 16 >= 11 ? 1 : 0;
    expect_cfa(library.at(i), Rule::kStackPointer, 1 + pushed);
  }
}

TEST(Cfi, AStackThatIsAlignedAnew) {
  // The CFA is kept below the frame pointer, and the caller's frame pointer where ours points.
  const Library library("\x10\x06"s + part("\x76\0"s) + "\x0f" + part("\x76\x78\x06"));
  expect_cfa(library.at(0), Rule::kAtFramePointer, -1);
  expect_frame_at(library.at(0), Rule::kAtFrame, 0);
  const Library more("\x0f"s + part("\x77\x10\x06\x23\x08"));
  expect_cfa(more.at(0), Rule::kAtStackPointer, 2);
  EXPECT_EQ(more.at(0).get(Rule::kMore), 1);
}

std::string recorded(size_t number, const std::string& offset) {
  return "\x10" + byte(number) + part("\x77" + offset);
}

TEST(Cfi, AFrameThatTheSystemMadeForASignal) {
  const std::string cfa = "\x0f" + part("\x77\xa0\x01\x06");
  const std::string others = recorded(6, "\xf8\0"s) + recorded(3, "\x80\x01");
  const std::string pc = recorded(16, "\xa8\x01");
  EXPECT_EQ(Library(cfa + others + pc, "zRS").at(0).kind(), Rule::kSignal);
  // What is elsewhere than the system puts it is not understood, nor one without its mark.
  EXPECT_EQ(Library(cfa + others + recorded(16, "\xb0\x01"), "zRS").at(0).kind(), Rule::kUnknown);
  EXPECT_EQ(Library(cfa + pc, "zRS").at(0).kind(), Rule::kUnknown);
  EXPECT_EQ(Library(cfa + others + pc).at(0).kind(), Rule::kUnknown);
}

TEST(Cfi, FormsOfTheCommonEntry) {
  const Library personality(kPushRbp, "zPLR", "\x9b\0\0\0\0\x1b\x1b"s);
  expect_cfa(personality.at(4), Rule::kFramePointer, 2);
  EXPECT_EQ(Library("", "zQ").at(0).kind(), Rule::kNone);
  EXPECT_EQ(Library("", "eh").at(0).kind(), Rule::kNone);
  EXPECT_EQ(Library("", "zR", "\x3b").at(0).kind(), Rule::kNone);
}

TEST(Cfi, MalformedInstructions) {
  const std::string deep(20, '\x0a');
  for (const std::string& bytes : {"\x0b"s, deep, "\x3f"s, "\x2d"s, "\x0f\x7f"s, "\x10\x06\x7f"s,
                                   "\x0c\x07"s + std::string(30, '\xff'), "\x0f\0"s}) {
    const Rule rule = Library(bytes).at(0);
    EXPECT_TRUE(rule.kind() == Rule::kNone || rule.kind() == Rule::kUnknown) << bytes.size();
  }
}

TEST(Cfi, NothingIsReadBehindTheEnd) {
  const Library whole(kPushRbp, "zPLR", "\x9b\0\0\0\0\x1b\x1b"s);
  for (size_t length = 0; length < whole.bytes().size(); ++length) {
    Library cut("");
    cut.set(whole.bytes().substr(0, length));
    EXPECT_EQ(cut.at(0).kind(), Rule::kNone) << length;
  }
}

TEST(Cfi, AFingerprintIsOfAllThatCounts) {
  Library library(kPushRbp);
  const uint64_t print = library.print();
  EXPECT_NE(print, 0U);
  const std::string bytes = library.bytes();
  // The table itself says nothing about a frame; lengths lead elsewhere.
  constexpr size_t kFirstByte = 28;
  size_t same = 0;
  for (size_t i = kFirstByte; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    library.set(changed);
    same += library.print() == print ? 1 : 0;
  }
  EXPECT_EQ(same, 0U);
  EXPECT_EQ(Library(std::string(600, '\0')).print(), 0U) << "too long";
}

TEST(Expressions, StacksThatAreTooDeepOrEmpty) {
  Described result;
  const auto describes = [&](const std::string& text) {
    const auto* const at = reinterpret_cast<const uint8_t*>(text.data());
    return describe(Bytes(at, at + text.size()), 0, nullptr, &result);
  };
  EXPECT_FALSE(describes(""));
  EXPECT_FALSE(describes(std::string(9, '\x30')));
  EXPECT_TRUE(describes(std::string(8, '\x30')));
  for (const std::string& text : {"\x22"s, "\x30\x22"s, "\x06"s, "\x30\x06"s, "\xff"s, "\x23"s,
                                  "\x77"s, "\x77\x08\x77\x08\x22"s, "\x77\0\x06\x06"s}) {
    EXPECT_FALSE(describes(text)) << text.size();
  }
}

// ---- Kept rules ----

Kept kept_of(uint64_t seed) {
  Kept kept;
  kept.rule = Rule(seed * 0x100000001);
  kept.entry = seed * 3;
  kept.print = seed * 5;
  return kept;
}
bool is_of(const Kept& kept, uint64_t seed) {
  return kept.rule.bits() == seed * 0x100000001 && kept.entry == seed * 3 && kept.print == seed * 5;
}

TEST(RuleCache, KnowsWhatItKeepsAndNothingElse) {
  const auto cache = std::make_unique<RuleCache>();
  Kept found;
  for (uintptr_t pc = 1; pc < 1000; ++pc) EXPECT_FALSE(cache->find(pc, &found));
  for (uintptr_t pc = 1; pc < 10'000; ++pc) {
    cache->keep(pc, kept_of(pc));
    ASSERT_TRUE(cache->find(pc, &found));
    EXPECT_TRUE(is_of(found, pc));
  }
  size_t still = 0;
  for (uintptr_t pc = 1; pc < 10'000; ++pc) {
    if (!cache->find(pc, &found)) continue;
    EXPECT_TRUE(is_of(found, pc));
    ++still;
  }
  EXPECT_GT(still, 1000U);
}

TEST(RuleCache, WordsOfTwoEntriesAreNone) {
  // All threads write and read a few instructions, with other words each time.
  const auto cache = std::make_unique<RuleCache>();
  std::array<bool, 4> right{};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&cache, &right, t] {
      bool all = true;
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uintptr_t pc = 1 + i % 3;
        Kept found;
        if (cache->find(pc, &found)) all = all && is_of(found, found.entry / 3);
        cache->keep(pc, kept_of(i * right.size() + t));
      }
      right[t] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool all : right) EXPECT_TRUE(all);
}

}  // namespace
}  // namespace loft::unwind
