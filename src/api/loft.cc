// The functions of include/loft/loft.h, which states their contracts.
#include "loft/loft.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "api/option_text.h"
#include "api/process.h"
#include "api/surface.h"
#include "cache/object.h"
#include "malloc/allocate.h"
#include "malloc/ordinary.h"
#include "malloc/policy.h"
#include "profile/samples.h"
#include "profile/write.h"
#include "runtime/background.h"
#include "runtime/lifecycle.h"
#include "serve/server.h"
#include "stats/net.h"
#include "stats/objects.h"
#include "stats/report.h"
#include "stats/stats.h"

void* loft_malloc(size_t size) noexcept { return loft::allocate(size); }

void loft_free(void* object) noexcept { loft::deallocate(object); }

void* loft_calloc(size_t count, size_t size) noexcept { return loft::allocate_array(count, size); }

void* loft_realloc(void* object, size_t size) noexcept { return loft::resize(object, size); }

void* loft_reallocarray(void* object, size_t count, size_t size) noexcept {
  return loft::resize_array(object, count, size);
}

void* loft_aligned_alloc(size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_strict(alignment, size);
}

int loft_posix_memalign(void** object, size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_posix(object, alignment, size);
}

void* loft_memalign(size_t alignment, size_t size) noexcept {
  return loft::allocate_aligned_rounded(alignment, size);
}

void* loft_valloc(size_t size) noexcept { return loft::allocate_at_page(size); }

void* loft_pvalloc(size_t size) noexcept {
  return loft::allocate_at_page(loft::in_whole_pages(size));
}

size_t loft_malloc_usable_size(const void* object) noexcept { return loft::usable_size(object); }

int loft_malloc_trim(size_t pad) noexcept { return loft::trim(pad) != 0 ? 1 : 0; }

uint64_t loft_purge(loft_unreached_t* unreached) noexcept {
  size_t threads = 0;
  size_t bytes = 0;
  const size_t purged = loft::purge_everything(&threads, &bytes);
  if (unreached != nullptr) *unreached = {threads, bytes};
  return purged;
}

void loft_idle_begin() noexcept { loft::idle::begin_wait(); }

int loft_background_start() noexcept { return loft::background::start(); }

void loft_idle_end() noexcept { loft::lifecycle::attach(); }

void loft_free_sized(void* object, size_t size) noexcept {
  if (!loft::free_as_asked(object, size)) loft::deallocate(object);
}

void loft_free_aligned_sized(void* object, size_t alignment, size_t size) noexcept {
  if (!loft::free_as_asked(object, alignment, size)) loft::deallocate(object);
}

void* loft_aligned_calloc(size_t alignment, size_t count, size_t size) noexcept {
  return loft::allocate_aligned_array(alignment, count, size);
}

void* loft_aligned_realloc(void* object, size_t alignment, size_t size) noexcept {
  return loft::resize_aligned(object, alignment, size);
}

int loft_expand(void* object, size_t size) noexcept {
  if (object == nullptr) return 0;
  return loft::expand("loft_expand", object, size + (size == 0)) ? 1 : 0;
}

size_t loft_good_size(size_t size) noexcept { return loft::good_size(loft::kAlignment, size); }

size_t loft_aligned_good_size(size_t alignment, size_t size) noexcept {
  return loft::is_power_of_two(alignment) ? loft::good_size(alignment, size) : size;
}

void loft_check_bounds(const char* call, const void* at, size_t bytes) noexcept {
  loft::check_bounds(call, at, bytes);
}

void* loft_object_start(const void* interior) noexcept { return loft::object_of(interior).start; }

size_t loft_object_size(const void* interior) noexcept {
  const loft::ObjectRange object = loft::object_of(interior);
  return object.start == nullptr ? 0 : loft::policy().size_in(object.start, object.size);
}

size_t loft_visit_objects(loft_visit_t visit, void* context) noexcept {
  return loft::visit_objects(nullptr, visit, context);
}

int loft_version() noexcept { return LOFT_VERSION; }

int loft_option_set(const char* name, const char* value) noexcept {
  const int error = loft::apply_option(name, value);
  if (error == 0) loft::serve::follow();
  return error;
}

int loft_option_get(const char* name, char* value, size_t size) noexcept {
  const size_t length = loft::option_text(name, value, size);
  if (length == 0) return ENOENT;
  return length < size ? 0 : ERANGE;
}

int loft_profile_write(const char* path) noexcept {
  return !loft::profile::prepared() ? ENODATA : loft::profile::write_to(path);
}

int loft_stats(loft_stats_t* stats) noexcept {
  const uint64_t asked = stats->struct_size;
  if (asked < 2 * sizeof(uint64_t)) return EINVAL;
  const bool counters_alone = asked <= offsetof(loft_stats_t, resident_bytes);
  loft_stats_t all = counters_alone ? loft::counted_stats() : loft::Stats().all();
  all.struct_size = asked < sizeof(all) ? asked : sizeof(all);
  memcpy(stats, &all, all.struct_size);
  return 0;
}

int loft_thread_stats(loft_thread_stats_t* stats) noexcept {
  const uint64_t asked = stats->struct_size;
  if (asked < 2 * sizeof(uint64_t)) return EINVAL;
  loft_thread_stats_t all = {loft::least<uint64_t>(asked, sizeof(all)), 0};
  ptrdiff_t bytes = 0;
  if (!loft::read_net_bytes(&bytes)) return ENOTSUP;
  all.net_bytes = bytes;
  memcpy(stats, &all, all.struct_size);
  return 0;
}

size_t loft_stats_classes(loft_class_stats_t* classes, size_t count, size_t size) noexcept {
  const loft::Stats stats;
  auto* to = reinterpret_cast<char*>(classes);
  for (size_t i = 0; i < loft::least(count, loft::kStatsRows); ++i, to += size) {
    const loft_class_stats_t row = stats.row(i);
    memset(to, 0, size);
    memcpy(to, &row, loft::least(size, sizeof(row)));
  }
  return loft::kStatsRows;
}

int loft_stats_write(int file, loft_stats_format_t format) noexcept {
  loft::Output output = loft::Output::to_file(file);
  return loft::write_stats(output, loft::Stats(), format) ? output.error() : EINVAL;
}

size_t loft_stats_print(char* text, size_t size, loft_stats_format_t format) noexcept {
  loft::Output output = loft::Output::to_memory(text, size);
  return loft::write_stats(output, loft::Stats(), format) ? output.size() : 0;
}
