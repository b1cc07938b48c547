// A program that has some forms of operator new and delete itself, as C++ lets it: OWN_PLAIN,
// OWN_ARRAY, OWN_ALIGNED and OWN_ARRAY_ALIGNED say which pairs. They put a header before each
// object, so that nobody else's form may free it, and count. The forms that derive from these have
// to call them ([new.delete]).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <vector>

namespace {

enum Pair { kPlain, kArray, kAligned, kArrayAligned, kNobodys };
long made[kNobodys + 1];
long freed[kNobodys + 1];
bool refuses;

constexpr uint64_t kTag = 0x5eedf00d5eedf00d;
struct alignas(16) Header {
  uint64_t tag;
  Pair pair;
};

[[maybe_unused]] void* make(Pair pair, size_t size, size_t alignment) {
  if (refuses) throw std::bad_alloc();
  const size_t before = std::max(alignment, sizeof(Header));
  const size_t whole = (size + before + alignment - 1) / alignment * alignment;
  auto* const start = static_cast<char*>(std::aligned_alloc(alignment, whole));
  if (start == nullptr) throw std::bad_alloc();
  char* const p = start + before;
  new (p - sizeof(Header)) Header{kTag, pair};
  ++made[pair];
  return p;
}

[[maybe_unused]] void destroy(Pair pair, void* p, size_t alignment) {
  if (p == nullptr) return;
  auto* const header = static_cast<Header*>(p) - 1;
  if (header->tag != kTag || header->pair != pair) {
    std::puts("delete of what another new has made");
    std::abort();
  }
  header->tag = 0;
  ++freed[pair];
  std::free(static_cast<char*>(p) - std::max(alignment, sizeof(Header)));
}

// Who is to have made what a form returns.
Pair has_plain = kNobodys;
Pair has_array = kNobodys;
Pair has_aligned = kNobodys;
Pair has_array_aligned = kNobodys;

}  // namespace

using std::align_val_t;

#ifdef OWN_PLAIN
void* operator new(size_t n) { return make(kPlain, n, 16); }
void operator delete(void* p) noexcept { destroy(kPlain, p, 16); }
#endif
#ifdef OWN_ARRAY
void* operator new[](size_t n) { return make(kArray, n, 16); }
void operator delete[](void* p) noexcept { destroy(kArray, p, 16); }
#endif
#ifdef OWN_ALIGNED
void* operator new(size_t n, align_val_t a) { return make(kAligned, n, static_cast<size_t>(a)); }
void operator delete(void* p, align_val_t a) noexcept {
  destroy(kAligned, p, static_cast<size_t>(a));
}
#endif
#ifdef OWN_ARRAY_ALIGNED
void* operator new[](size_t n, align_val_t a) {
  return make(kArrayAligned, n, static_cast<size_t>(a));
}
void operator delete[](void* p, align_val_t a) noexcept {
  destroy(kArrayAligned, p, static_cast<size_t>(a));
}
#endif

namespace {

bool failed = false;

template <class New, class Delete>
void pair(const char* name, Pair whose, New make_one, Delete delete_one) {
  const long before = made[whose];
  const long freed_before = freed[whose];
  void* const p = make_one();
  const bool is_made = p != nullptr && (whose == kNobodys || made[whose] == before + 1);
  delete_one(p);
  const bool is_freed = whose == kNobodys || freed[whose] == freed_before + 1;
  if (is_made && is_freed) return;
  std::printf("%s: %s\n", name, is_made ? "freed by another" : "made by another");
  failed = true;
}

void each_form(size_t n) {
  const auto& nt = std::nothrow;
  pair("new", has_plain, [=] { return operator new(n); }, [](void* p) { operator delete(p); });
  pair(
      "sized", has_plain, [=] { return operator new(n); }, [=](void* p) { operator delete(p, n); });
  pair(
      "nothrow", has_plain, [=] { return operator new(n, nt); },
      [=](void* p) { operator delete(p, nt); });
  pair(
      "new[]", has_array, [=] { return operator new[](n); }, [](void* p) { operator delete[](p); });
  pair(
      "sized []", has_array, [=] { return operator new[](n); },
      [=](void* p) { operator delete[](p, n); });
  pair(
      "nothrow []", has_array, [=] { return operator new[](n, nt); },
      [=](void* p) { operator delete[](p, nt); });
  for (size_t alignment = 16; alignment <= 4096; alignment *= 4) {
    const align_val_t a{alignment};
    pair(
        "aligned", has_aligned, [=] { return operator new(n, a); },
        [=](void* p) { operator delete(p, a); });
    pair(
        "aligned sized", has_aligned, [=] { return operator new(n, a); },
        [=](void* p) { operator delete(p, n, a); });
    pair(
        "aligned nothrow", has_aligned, [=] { return operator new(n, a, nt); },
        [=](void* p) { operator delete(p, a, nt); });
    pair(
        "aligned []", has_array_aligned, [=] { return operator new[](n, a); },
        [=](void* p) { operator delete[](p, a); });
    pair(
        "aligned sized []", has_array_aligned, [=] { return operator new[](n, a); },
        [=](void* p) { operator delete[](p, n, a); });
    pair(
        "aligned nothrow []", has_array_aligned, [=] { return operator new[](n, a, nt); },
        [=](void* p) { operator delete[](p, a, nt); });
  }
}

// What the program's own form throws, the nothrow form catches.
void refusals() {
  refuses = true;
  const align_val_t a{64};
  void* const all[] = {
      has_plain == kNobodys ? nullptr : operator new(100, std::nothrow),
      has_array == kNobodys ? nullptr : operator new[](100, std::nothrow),
      has_aligned == kNobodys ? nullptr : operator new(100, a, std::nothrow),
      has_array_aligned == kNobodys ? nullptr : operator new[](100, a, std::nothrow),
  };
  refuses = false;
  for (const void* p : all) {
    if (p == nullptr) continue;
    std::puts("a refusal was not caught");
    failed = true;
  }
}

void library() {
  std::map<int, std::string> strings;
  for (int i = 0; i < 1000; ++i) strings[i * 7919 % 1009] = std::string(i % 300, 'x');
  std::vector<std::string> sorted;
  for (const auto& [key, value] : strings) sorted.push_back(value);
  std::stable_sort(sorted.begin(), sorted.end());
}

}  // namespace

int main(int argc, char**) {
#ifdef OWN_PLAIN
  has_plain = has_array = kPlain;
#endif
#ifdef OWN_ARRAY
  has_array = kArray;
#endif
#ifdef OWN_ALIGNED
  has_aligned = has_array_aligned = kAligned;
#endif
#ifdef OWN_ARRAY_ALIGNED
  has_array_aligned = kArrayAligned;
#endif
  for (int round = 0; round < 3; ++round) {
    for (const size_t n : {0, 1, 24, 100, 1000, 5000, 40000, 5000000}) each_form(n);
    library();
  }
  // Not where it is linked statically, and there is nobody who catches.
  if (argc == 1) refusals();
  for (int i = 0; i < kNobodys; ++i) {
    if (made[i] == freed[i]) continue;
    std::printf("%ld made, %ld freed\n", made[i], freed[i]);
    failed = true;
  }
  std::puts(failed ? "wrong" : "right");
}
