// Whether a variant of the library (tools/variants.py) has the batch cache that its name says:
// frees objects of many slabs in a random order, and compares after each what is open, and what was
// sent, with a model. VARIANT is the single file of the variant.
#include VARIANT

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using loft::kNoSlab;

constexpr size_t kSize = 128;  // too small for long messages, which objects would join alone

struct Model {
  unsigned ways;
  unsigned sets;
  std::string eviction;
  unsigned most_in_batch;

  struct Batch {
    uint32_t slab = kNoSlab;
    unsigned count = 0;
    unsigned before = 0;
  };
  std::vector<Batch> batches{size_t{ways} * sets};
  std::vector<unsigned> turn{std::vector<unsigned>(sets)};
  unsigned long sent = 0;
  unsigned long sent_objects = 0;

  void send(Batch& batch) {
    ++sent;
    sent_objects += batch.count;
    batch = Batch{};
  }

  Batch& choose(unsigned set, Batch& first, Batch& second) {
    if (ways == 1) return first;
    if (eviction == "LeastGrownGoes") {
      const unsigned grown = first.count - first.before;
      return second.count - second.before < grown ? second : first;
    }
    if (eviction == "FullerGoes") return second.count > first.count ? second : first;
    if (eviction == "EmptierGoes") return second.count < first.count ? second : first;
    if (eviction == "EachInTurn") return turn[set]++ % 2 == 0 ? first : second;
    std::fprintf(stderr, "no eviction %s\n", eviction.c_str());
    std::exit(2);
  }

  void add(uint32_t slab) {
    const auto set = static_cast<unsigned>(uint64_t{slab * 0x9E3779B1u} * sets >> 32);
    Batch& first = batches[set];
    Batch& second = batches[(ways - 1) * sets + set];
    Batch* own = first.slab == slab ? &first : second.slab == slab ? &second : nullptr;
    if (own == nullptr) {
      own = first.count == 0 ? &first : second.count == 0 ? &second : nullptr;
      if (own == nullptr) {
        own = &choose(set, first, second);
        send(*own);
      }
      Batch& other = own == &first ? second : first;
      other.before = other.count;
      *own = {slab, 0, 0};
    }
    if (++own->count == most_in_batch) send(*own);
  }
};

uint32_t slab_of(const void* p) { return loft::pagemap.of(p).index(); }

// 0 if all was as in the model.
int check(Model& model) {
  std::map<uint32_t, std::vector<void*>> objects_of;
  for (int i = 0; i < 32'000; ++i) {
    void* p = loft::allocate(kSize);
    objects_of[slab_of(p)].push_back(p);
  }
  std::vector<std::vector<void*>> slabs;
  for (auto& entry : objects_of) slabs.push_back(entry.second);
  int wrong = 0;
  std::thread([&] {
    loft::youth::end();  // a young thread opens no batches
    std::mt19937 random(1);
    // Nothing else of the first thread's may be freed here: emptied slabs move to the end.
    size_t left = slabs.size();
    for (int frees = 0; frees < 10'000 && left != 0 && wrong == 0; ++frees) {
      // Some slabs more often than others, so that batches differ in what they hold.
      const size_t chosen = std::min(random() % left, random() % left);
      void* p = slabs[chosen].back();
      slabs[chosen].pop_back();
      if (slabs[chosen].empty()) std::swap(slabs[chosen], slabs[--left]);
      model.add(slab_of(p));
      loft::deallocate(p);
      const loft::ThreadCache* self = loft::this_thread();
      std::set<uint32_t> open;
      for (const uint32_t key : self->batch_keys) {
        if (key != kNoSlab) open.insert(key);
      }
      std::set<uint32_t> expected;
      for (const Model::Batch& batch : model.batches) {
        if (batch.slab != kNoSlab) expected.insert(batch.slab);
      }
      unsigned long sent_objects = 0;
      for (const loft::Counter& of_class : self->counters.batch_objects)
        sent_objects += of_class.get();
      wrong = open != expected || self->counters.batches_sent.get() != model.sent ||
              sent_objects != model.sent_objects;
    }
  }).join();
  if (wrong != 0) {
    std::fprintf(stderr, "not as in the model after %lu batches\n", model.sent);
  } else {
    std::printf("%zu slabs, %lu batches\n", objects_of.size(), model.sent);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  Model model{static_cast<unsigned>(std::atoi(argv[1])), static_cast<unsigned>(std::atoi(argv[2])),
              argv[3], std::max(1u, static_cast<unsigned>(std::atoi(argv[4])) / unsigned{kSize})};
  return check(model);
}
