// Heaps over memory of a graphics processor, and over memory that is pinned for one: the driver of
// CUDA is loaded when the test runs, and where there is none, or no device, it is skipped.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "loft/loft.h"
#include "surface/heap_stats.h"

namespace {

// As much of the driver's interface as is needed here; all calls return 0 if all went well.
using DevicePointer = unsigned long long;
using Handle = void*;

class Driver {
 public:
  // nullptr where nothing can be tried; *why says why.
  static const Driver* get(const char** why) {
    static Driver driver;
    static const char* const missing = driver.start();
    *why = missing;
    return missing == nullptr ? &driver : nullptr;
  }

  // Each thread that calls the driver.
  void use() const { ASSERT_EQ(set_current_(context_), 0); }

  int (*allocate)(DevicePointer*, size_t) = nullptr;
  int (*release)(DevicePointer) = nullptr;
  int (*allocate_pinned)(void**, size_t, unsigned) = nullptr;
  int (*release_pinned)(void*) = nullptr;
  int (*pin)(void*, size_t, unsigned) = nullptr;
  int (*unpin)(void*) = nullptr;
  int (*to_device)(DevicePointer, const void*, size_t) = nullptr;
  int (*to_host)(void*, DevicePointer, size_t) = nullptr;
  int (*synchronize)() = nullptr;

  // The device adds `value` to `count` words, in place.
  void add(void* words, uint32_t count, uint32_t value) const {
    void* arguments[] = {&words, &count, &value};
    ASSERT_EQ(launch_(add_, 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr), 0);
    ASSERT_EQ(synchronize(), 0);
  }

 private:
  const char* start() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return "no driver of CUDA (libcuda.so.1) on this machine";
    bool found = true;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      found = found && function != nullptr;
    };
    int (*initialise)(unsigned) = nullptr;
    int (*device_get)(int*, int) = nullptr;
    int (*retain)(Handle*, int) = nullptr;
    int (*load)(Handle*, const void*) = nullptr;
    int (*function_of)(Handle*, Handle, const char*) = nullptr;
    find(initialise, "cuInit");
    find(device_get, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(set_current_, "cuCtxSetCurrent");
    find(load, "cuModuleLoadData");
    find(function_of, "cuModuleGetFunction");
    find(launch_, "cuLaunchKernel");
    find(synchronize, "cuCtxSynchronize");
    find(allocate, "cuMemAlloc_v2");
    find(release, "cuMemFree_v2");
    find(allocate_pinned, "cuMemHostAlloc");
    find(release_pinned, "cuMemFreeHost");
    find(pin, "cuMemHostRegister_v2");
    find(unpin, "cuMemHostUnregister");
    find(to_device, "cuMemcpyHtoD_v2");
    find(to_host, "cuMemcpyDtoH_v2");
    if (!found) return "the driver of CUDA is too old for this test";
    int device = 0;
    if (initialise(0) != 0 || device_get(&device, 0) != 0) return "no device that CUDA can use";
    Handle module = nullptr;
    EXPECT_EQ(retain(&context_, device), 0);
    EXPECT_EQ(set_current_(context_), 0);
    EXPECT_EQ(load(&module, kAdd), 0);
    EXPECT_EQ(function_of(&add_, module, "add"), 0);
    return nullptr;
  }

  static constexpr char kAdd[] = R"(
    .version 6.3
    .target sm_60
    .address_size 64
    .visible .entry add(.param .u64 words, .param .u32 count, .param .u32 value) {
      .reg .pred %end;
      .reg .u32 %i, %n, %v, %w, %step;
      .reg .u64 %base, %at;
      ld.param.u64 %base, [words];
      ld.param.u32 %n, [count];
      ld.param.u32 %v, [value];
      mov.u32 %i, %tid.x;
      mov.u32 %step, %ntid.x;
    next:
      setp.ge.u32 %end, %i, %n;
      @%end bra done;
      mul.wide.u32 %at, %i, 4;
      add.u64 %at, %at, %base;
      ld.u32 %w, [%at];
      add.u32 %w, %w, %v;
      st.u32 [%at], %w;
      add.u32 %i, %i, %step;
      bra next;
    done:
      ret;
    })";

  int (*set_current_)(Handle) = nullptr;
  int (*launch_)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 Handle, void**, void**) = nullptr;
  Handle context_ = nullptr;
  Handle add_ = nullptr;
};

constexpr size_t kRegion = size_t{64} << 20;
constexpr unsigned kPortableAndMapped = 3;  // flags of pinned memory

class DeviceHeaps : public testing::Test {
 protected:
  void SetUp() override {
    const char* why = nullptr;
    driver_ = Driver::get(&why);
    if (driver_ == nullptr) GTEST_SKIP() << why;
    driver_->use();
  }

  const Driver* driver_ = nullptr;
};

using Words = std::vector<uint32_t>;

Words words_from(uint32_t first, size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), first);
  return words;
}

// Objects of one thread; each holds words that count up from a number of its own.
struct Held {
  void* at;
  uint32_t first;
  size_t count;
};

// Replaces objects at random. `write` and `read` get words into an object, and out of it.
template <typename Write, typename Read>
void replace_at_random(loft_heap_t* heap, unsigned seed, Write write, Read read) {
  std::mt19937 random(seed);
  std::vector<Held> held(200);
  const auto drop = [&](const Held& old) {
    EXPECT_EQ(read(old.at, old.count), words_from(old.first, old.count));
    loft_heap_free(heap, old.at);
  };
  for (uint32_t turn = 0; turn < 2000; ++turn) {
    Held& place = held[random() % held.size()];
    if (place.at != nullptr) drop(place);
    const size_t count = 1 + random() % (1u << random() % 14);
    place = {loft_heap_malloc(heap, 4 * count), seed << 24 | turn << 8, count};
    ASSERT_NE(place.at, nullptr);
    write(place.at, words_from(place.first, count));
  }
  for (const Held& old : held) {
    if (old.at != nullptr) drop(old);
  }
}

void in_four_threads(auto body) {
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// No processor can read or write it: whatever touched the region here would crash.
TEST_F(DeviceHeaps, OverADevicesOwnMemory) {
  DevicePointer region = 0;
  ASSERT_EQ(driver_->allocate(&region, kRegion), 0);
  loft_heap_t* heap = loft_heap_create_over(reinterpret_cast<void*>(region), kRegion);
  ASSERT_NE(heap, nullptr);
  in_four_threads([&](unsigned seed) {
    driver_->use();
    const auto write = [&](void* to, const Words& words) {
      EXPECT_EQ(
          driver_->to_device(reinterpret_cast<DevicePointer>(to), words.data(), 4 * words.size()),
          0);
    };
    const auto read = [&](const void* from, size_t count) {
      Words words(count);
      EXPECT_EQ(driver_->to_host(words.data(), reinterpret_cast<DevicePointer>(from), 4 * count),
                0);
      return words;
    };
    replace_at_random(heap, seed, write, read);
  });
  EXPECT_EQ(surface::stats_of(heap).live_objects, 0u);
  void* whole = loft_heap_aligned_alloc(heap, 256, kRegion - 4096);
  EXPECT_NE(whole, nullptr) << "what was freed is one piece again";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(whole) % 256, 0u);
  loft_heap_destroy(heap);
  EXPECT_EQ(driver_->release(region), 0);
}

// What the processor wrote, the device reads and changes in place.
void share_with_device(const Driver* driver, void* region) {
  loft_heap_t* heap = loft_heap_create_over(region, kRegion);
  ASSERT_NE(heap, nullptr);
  constexpr uint32_t kAdded = 1'000'000;
  in_four_threads([&](unsigned seed) {
    driver->use();
    const auto write = [&](void* to, Words words) {
      for (uint32_t& word : words) word -= kAdded;
      std::copy(words.begin(), words.end(), static_cast<uint32_t*>(to));
      driver->add(to, static_cast<uint32_t>(words.size()), kAdded);
    };
    const auto read = [&](const void* from, size_t count) {
      const auto* words = static_cast<const uint32_t*>(from);
      return Words(words, words + count);
    };
    replace_at_random(heap, seed, write, read);
  });
  loft_heap_destroy(heap);
}

TEST_F(DeviceHeaps, OverMemoryThatTheDriverPinned) {
  void* region = nullptr;
  ASSERT_EQ(driver_->allocate_pinned(&region, kRegion, kPortableAndMapped), 0);
  share_with_device(driver_, region);
  EXPECT_EQ(driver_->release_pinned(region), 0);
}

TEST_F(DeviceHeaps, OverMemoryOfTheProgramsThatWasPinned) {
  void* region = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(region, MAP_FAILED);
  ASSERT_EQ(driver_->pin(region, kRegion, kPortableAndMapped), 0);
  share_with_device(driver_, region);
  EXPECT_EQ(driver_->unpin(region), 0);
  munmap(region, kRegion);
}

// A program that uses a device under loft as its malloc: large pinned objects of loft's own.
TEST_F(DeviceHeaps, ObjectsOfTheProcessCanBePinned) {
  constexpr size_t kCount = size_t{1} << 18;
  for (uint32_t round = 0; round < 20; ++round) {
    auto* words = static_cast<uint32_t*>(aligned_alloc(4096, 4 * kCount));
    ASSERT_NE(words, nullptr);
    std::iota(words, words + kCount, round);
    ASSERT_EQ(driver_->pin(words, 4 * kCount, kPortableAndMapped), 0);
    driver_->add(words, kCount, 7);
    ASSERT_EQ(driver_->unpin(words), 0);
    EXPECT_EQ(Words(words, words + kCount), words_from(round + 7, kCount));
    free(words);
  }
}

}  // namespace
