#include "slab/slab.h"

#include <new>

#include "space/span.h"

namespace loft {

namespace {

size_t metadata_bytes(const Geometry& shape) {
  return offsetof(Slab, bits) + shape.words * sizeof(uint64_t);
}

constexpr uint64_t low_bits(unsigned count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace

unsigned Slab::take(void** slots, unsigned wanted) {
  const size_t size = shape().size;
  unsigned taken = 0;
  uint64_t words = summary;
  while (words != 0 && taken < wanted) {
    const unsigned word = lowest_bit(words);
    taken += take_from_word(bits[word], base + size_t{word} * 64 * size, size, slots - taken,
                            wanted - taken);
    if (bits[word] == 0) words &= words - 1;
  }
  summary = words;
  free -= taken;
  return taken;
}

void Slab::check() const {
  if (!kDebug) return;
  unsigned count = 0;
  for (unsigned word = 0; word < shape().words; ++word) {
    count += count_bits(bits[word]);
    LOFT_CHECK((bits[word] != 0) == ((summary >> word & 1) != 0));
  }
  LOFT_CHECK(count == free);
  const unsigned last = shape().words - 1u;
  LOFT_CHECK((bits[last] & ~low_bits(shape().objects - last * 64)) == 0);
  LOFT_CHECK((list == Fullness::kFull) == (free == 0));
}

void Slab::report_double_free(unsigned word, uint64_t twice) const {
  const size_t object = (size_t{word} * 64 + lowest_bit(twice)) * shape().size;
  slab::report_misuse("double free of", reinterpret_cast<const void*>(base + object), this);
}

namespace slab {

Slab* create(SizeClass size_class, uint16_t owner) {
  const Geometry& shape = geometry(size_class);
  void* block = metadata::allocate(metadata_bytes(shape));
  if (block == nullptr) return nullptr;
  const span::Range range = span::acquire(shape.granules, kGranule);
  if (range.base == 0) {
    metadata::release(block, metadata_bytes(shape));
    return nullptr;
  }
  auto* slab = new (block) Slab{range.base,
                                low_bits(shape.words),
                                nullptr,
                                nullptr,
                                shape.objects,
                                owner,
                                static_cast<uint8_t>(size_class),
                                Fullness::kFull};
  for (unsigned word = 0; word < shape.words; ++word) {
    slab->bits[word] = low_bits(shape.objects - word * 64u);
  }
  pagemap.fill(range.base, shape.granules,
               Entry(owner, bin_offset(size_class), metadata::index_of(slab)));
  return slab;
}

void destroy(Slab* slab) {
  const Geometry& shape = slab->shape();
  LOFT_CHECK(slab->empty() && slab->list == Fullness::kFull);
  span::release(slab->base, shape.granules, true);
  metadata::release(slab, metadata_bytes(shape));
}

void report_misuse(const char* what, const void* p, const Slab* slab) {
  Text line;
  line << what << " " << p << ": slab " << reinterpret_cast<const void*>(slab->base)
       << ", size class " << uint64_t{slab->shape().size} << " bytes";
  os::fault(line);
}

}  // namespace slab
}  // namespace loft
