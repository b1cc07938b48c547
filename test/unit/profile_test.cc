// The parts of the profile by themselves: the draws and weights, the compressed form, paths, and
// the mappings of the process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "files/output.h"
#include "files/signal_names.h"
#include "inspect/locations.h"
#include "inspect/new_file.h"
#include "inspect/sink.h"
#include "inspect/touched.h"
#include "os/os.h"
#include "profile/poisson.h"

namespace loft::profile {
namespace {

TEST(Poisson, FunctionsAreThoseOfLibm) {
  for (double x = 1e-16; x < 1e16; x *= 1.37) {
    EXPECT_NEAR(logarithm(x), std::log(x), 1e-9 * std::max(1.0, std::fabs(std::log(x)))) << x;
  }
  for (double x = 1e-12; x < 1e6; x *= 1.13) {
    EXPECT_NEAR(chance(x) / -std::expm1(-x), 1, 1e-9) << x;
  }
}

TEST(Poisson, WeightsUndoTheChance) {
  EXPECT_EQ(weight_of(1 << 30, 1), 65536u);  // always sampled: stands for itself
  EXPECT_EQ(weight_of(0, 4096), 0u);
  for (const uint64_t bytes : {16u, 1024u, 524288u, 4u << 20}) {
    const double wanted = 65536 / -std::expm1(-static_cast<double>(bytes) / 524288);
    EXPECT_NEAR(static_cast<double>(weight_of(bytes, 524288)) / wanted, 1, 1e-5) << bytes;
  }
}

TEST(Poisson, GapsHaveTheirMeanAndNoMemory) {
  std::mt19937_64 random(7);  // always the same
  constexpr int kDraws = 200'000;
  constexpr uint64_t kMean = 10'000;
  double sum = 0;
  int beyond[3] = {};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t gap = gap_of(random(), kMean);
    sum += static_cast<double>(gap);
    for (int n = 0; n < 3; ++n) beyond[n] += gap >= kMean * (n + 1) ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws / kMean, 1, 0.01);
  for (int n = 0; n < 3; ++n) {
    EXPECT_NEAR(static_cast<double>(beyond[n]) / kDraws, std::exp(-(n + 1)), 0.005) << n;
  }
  EXPECT_EQ(gap_of(~uint64_t{0}, kMean), 0u);
  EXPECT_LT(gap_of(0, kMean), 40 * kMean);
}

// What the program gzip makes of it.
std::string unpacked(const std::string& name) {
  std::string all;
  FILE* const pipe = popen(("gzip -dc " + name).c_str(), "r");
  char part[4096];
  for (size_t got; (got = fread(part, 1, sizeof(part), pipe)) != 0;) all.append(part, got);
  EXPECT_EQ(pclose(pipe), 0);
  return all;
}

class File {
 public:
  File() { file_ = mkstemp(name_); }
  ~File() {
    close(file_);
    unlink(name_);
  }
  int file() const { return file_; }
  const char* name() const { return name_; }

 private:
  char name_[32] = "/tmp/loft_profile_XXXXXX";
  int file_;
};

// In two parts.
int put(int file, bool as_gzip, const std::string& text) {
  inspect::Sink sink(file, as_gzip);
  sink.put(text.data(), text.size() / 3);
  sink.put(text.data() + text.size() / 3, text.size() - text.size() / 3);
  return sink.end();
}

TEST(Sink, IsReadByGzip) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8191}, size_t{8192}, size_t{100'000}}) {
    std::string text(bytes, 0);
    for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * i >> 3);
    const File file;
    EXPECT_EQ(put(file.file(), true, text), 0);
    EXPECT_EQ(unpacked(file.name()), text) << bytes;
    const File plain;
    EXPECT_EQ(put(plain.file(), false, text), 0);
    std::ifstream written(plain.name());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), text) << bytes;
  }
}

TEST(Sink, TellsOfAFullDisk) {
  FILE* const full = fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(put(fileno(full), true, "text"), ENOSPC);
  EXPECT_EQ(put(fileno(full), false, "text"), ENOSPC);
  fclose(full);
}

TEST(Files, PathsAreExpanded) {
  char text[32];
  const std::string number = std::to_string(getpid());
  EXPECT_TRUE(files::expand_path("/x/%p.%%p%", text, sizeof(text)));
  EXPECT_EQ(text, "/x/" + number + ".%p%");
  EXPECT_FALSE(files::expand_path("/a/path/that/is/longer/than/thirty/one", text, sizeof(text)));
  EXPECT_STREQ(text, "");
  EXPECT_TRUE(files::expand_path("", text, sizeof(text)));
  EXPECT_STREQ(text, "");
}

TEST(Files, WordsStandBeforeEndings) {
  const std::pair<const char*, std::string> kNames[] = {
      {"heap.12.pb.gz", "heap.12.word.pb.gz"},
      {"/a.gz/heap", "/a.gz/heap.word"},
      {"x.collapsed", "x.word.collapsed"},
      {"x.pb", "x.word.pb"},
      {"x.gz", "x.word.gz"},
      {"", ".word"},
  };
  char text[32];
  for (const auto& [before, after] : kNames) {
    EXPECT_TRUE(inspect::name_beside(before, "", "word", text, sizeof(text)));
    EXPECT_EQ(text, after);
  }
  EXPECT_TRUE(inspect::name_beside("/x/y", "12-", "", text, sizeof(text)));
  EXPECT_STREQ(text, "/x/12-y");
  EXPECT_TRUE(inspect::name_beside("y.gz", "12-", "word", text, sizeof(text)));
  EXPECT_STREQ(text, "12-y.word.gz");
  EXPECT_FALSE(inspect::name_beside("heap.pb.gz", "", "word", text, 15));
  EXPECT_TRUE(inspect::name_beside("heap.pb.gz", "", "word", text, 16));
  EXPECT_STREQ(text, "heap.word.pb.gz");
}

TEST(Files, SignalsHaveNamesAndNumbers) {
  uint64_t number = 0;
  for (const char* name : {"USR2", "SIGUSR2", "12", "012"}) {
    EXPECT_TRUE(files::signal_number(name, number)) << name;
    EXPECT_EQ(number, static_cast<uint64_t>(SIGUSR2)) << name;
  }
  EXPECT_TRUE(files::signal_number(std::to_string(SIGRTMIN), number));
  EXPECT_EQ(number, static_cast<uint64_t>(SIGRTMIN));
  for (const char* name : {"", "SIG", "usr2", "USR", "KILL", "SEGV", "TERM", "9", "0", "15", "65",
                           "-12", "12 ", "18446744073709551628"}) {
    EXPECT_FALSE(files::signal_number(name, number)) << name;
  }
}

TEST(Locations, CodeThatIsMapped) {
  const inspect::Locations locations(nullptr);
  ASSERT_TRUE(locations.is_complete());
  uintptr_t last = 0;
  size_t with_id = 0;
  for (size_t i = 0; i < locations.code_count(); ++i) {
    const inspect::Code& code = locations.code(i);
    EXPECT_GE(code.begin, last);
    EXPECT_GT(code.end, code.begin);
    last = code.end;
    with_id += code.build_id_bytes != 0 ? 1 : 0;
  }
  EXPECT_GT(with_id, 0u);  // the C library's at least
  const size_t own = locations.code_of(reinterpret_cast<uintptr_t>(&unpacked));
  ASSERT_NE(own, 0u);
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
  EXPECT_STREQ(locations.code(own - 1).name, self);
}

// Pages of an address space that nobody has written to, but for these.
class Reservation {
 public:
  explicit Reservation(size_t bytes)
      : at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        bytes_(bytes) {
    // A huge page would be touched as a whole.
    madvise(at_, bytes, MADV_NOHUGEPAGE);
  }
  ~Reservation() { munmap(at_, bytes_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  bool is_there() const { return at_ != MAP_FAILED; }
  char* page(size_t i) const { return static_cast<char*>(at_) + i * os::page_size(); }

 private:
  void* at_;
  size_t bytes_;
};

using Parts = std::vector<std::pair<uintptr_t, uintptr_t>>;

Parts parts_of(inspect::Touched& touched, const void* from, const void* end) {
  Parts all;
  touched.begin(reinterpret_cast<uintptr_t>(from), reinterpret_cast<uintptr_t>(end));
  for (;;) {
    const inspect::Touched::Range part = touched.next();
    if (part.begin == part.end) return all;
    all.emplace_back(part.begin, part.end);
  }
}

TEST(TouchedPages, AreFound) {
  const size_t page = os::page_size();
  constexpr size_t kPages = 20'000;  // more than are asked for at once
  const Reservation reservation(kPages * page);
  ASSERT_TRUE(reservation.is_there());
  const auto range = [&](size_t from, size_t end) {
    return std::pair(reinterpret_cast<uintptr_t>(reservation.page(from)),
                     reinterpret_cast<uintptr_t>(reservation.page(end)));
  };
  inspect::Touched touched;
  const char* const from = reservation.page(0);
  const char* const end = reservation.page(kPages);
  EXPECT_EQ(parts_of(touched, from, end), Parts());
  for (const size_t i : {0u, 5u, 6u, 7u, 8191u, 8192u, 17'000u, 19'999u}) *reservation.page(i) = 1;
  const Parts all = {range(0, 1), range(5, 8), range(8191, 8193), range(17'000, 17'001),
                     range(19'999, 20'000)};
  EXPECT_EQ(parts_of(touched, from, end), all);
  // A range that begins and ends within pages.
  const Parts cut = {{range(5, 8).first + 8, range(5, 8).second},
                     {range(8191, 8193).first, range(8191, 8193).second - 16}};
  EXPECT_EQ(parts_of(touched, reservation.page(5) + 8, reservation.page(8193) - 16), cut);
  EXPECT_EQ(parts_of(touched, from, from), Parts());
  EXPECT_EQ(parts_of(touched, reservation.page(1) + 8, reservation.page(1) + 24), Parts());
}

TEST(TouchedPages, AsTheSystemTellsOfThem) {
  EXPECT_FALSE(inspect::Touched::may_hold(0));
  EXPECT_FALSE(inspect::Touched::may_hold(uint64_t{1} << 55 | uint64_t{1} << 61));
  EXPECT_TRUE(inspect::Touched::may_hold(uint64_t{1} << 63)) << "has memory";
  EXPECT_TRUE(inspect::Touched::may_hold(uint64_t{1} << 62 | 5)) << "is swapped out";
}

}  // namespace
}  // namespace loft::profile
