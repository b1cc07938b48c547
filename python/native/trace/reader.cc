#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner.h"

namespace trace {

namespace {

constexpr const char* kNames[] = {"",
                                  "malloc",
                                  "calloc",
                                  "realloc",
                                  "realloc",
                                  "reallocarray",
                                  "free",
                                  "free_sized",
                                  "free_aligned_sized",
                                  "aligned_alloc",
                                  "memalign",
                                  "posix_memalign",
                                  "valloc",
                                  "pvalloc",
                                  "thread starts",
                                  "thread joined",
                                  "thread ends"};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == kLastCall + 1);

using Number = unsigned long long;

// Bytes stand for themselves where JSON lets them, else as the characters of their numbers.
void print_words(const Image& image) {
  putchar('"');
  for (size_t i = 0; i < image.words_bytes; i++) {
    const auto c = static_cast<unsigned char>(image.words[i]);
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
      printf("\\u%04x", c);
    } else {
      putchar(c);
    }
  }
  putchar('"');
}

void print_image(const Image& image) {
  printf("\"pid\": %u, \"parent\": %llu, \"image\": %llu, \"words\": ", image.pid,
         static_cast<Number>(image.parent), static_cast<Number>(image.number));
  print_words(image);
  printf(", \"calls\": %llu, \"threads\": %u, \"lost\": %llu, \"ns\": %llu",
         static_cast<Number>(image.calls), image.threads, static_cast<Number>(image.lost),
         static_cast<Number>((image.last_tick - image.first_tick) * kTick));
}

void print_info(Chunks& chunks) {
  printf("[");
  for (size_t i = 0; i < chunks.images().size(); i++) {
    printf("%s{", i == 0 ? "" : ", ");
    print_image(chunks.images()[i]);
    printf("}");
  }
  printf("]\n");
}

void print_calls(Calls& calls) {
  uint64_t start = 0;
  for (uint64_t ticket = 1; ticket <= calls.last(); ticket++) {
    const Record& record = calls.at(ticket);
    if (record.call == 0 || record.call == kMoved) continue;
    if (start == 0) start = record.ticks;
    const auto call = static_cast<Call>(record.call);
    printf("%llu %u %lld %s", static_cast<Number>(ticket), record.thread,
           static_cast<long long>((record.ticks - start) * kTick / 1000), kNames[call]);
    if (has_count(call)) printf(" %llu", static_cast<Number>(record.count));
    if (has_size(call)) printf(" %llu", static_cast<Number>(record.size));
    if (record.owner != 0) {
      printf(" #%llu", static_cast<Number>(record.owner));
    } else if (record.foreign) {
      printf(" #?");
    } else if (frees(call) || moves(call)) {
      printf(" null");
    }
    if (Calls::begins(record)) printf(" -> #%llu", static_cast<Number>(ticket));
    if (moves(call) && !record.nothing) printf(" -> #%llu", static_cast<Number>(record.end));
    if (!frees(call) && call < kSpawn && record.nothing) printf(" -> null");
    printf("\n");
  }
}

void print_plan(const Image& image, Calls& calls) {
  printf("{");
  print_image(image);
  printf(", \"by_call\": {");
  const char* between = "";
  uint64_t counts[kLastCall + 1];
  for (size_t i = 1; i <= kLastCall; i++) counts[i] = calls.by_call[i];
  counts[kRealloc] += counts[kReallocNew];
  for (size_t i = 1; i <= kLastCall; i++) {
    if (counts[i] == 0 || i == kReallocNew) continue;
    printf("%s\"%s\": %llu", between, kNames[i], static_cast<Number>(counts[i]));
    between = ", ";
  }
  printf("}, \"by_size\": [");
  for (size_t i = 0; i < 65; i++) {
    printf("%s%llu", i == 0 ? "" : ", ", static_cast<Number>(calls.by_size[i]));
  }
  printf("], \"failed\": %llu, \"handed\": %llu, \"foreign\": %llu, \"twice\": %llu",
         static_cast<Number>(calls.failed), static_cast<Number>(calls.handed),
         static_cast<Number>(calls.foreign), static_cast<Number>(calls.twice));
  printf(", \"peak_bytes\": %llu, \"peak_objects\": %llu, \"peak_ticket\": %llu",
         static_cast<Number>(calls.peak_bytes), static_cast<Number>(calls.peak_objects),
         static_cast<Number>(calls.peak_ticket));
  printf(", \"inherited\": %llu", static_cast<Number>(calls.inherited));
  printf(", \"left_bytes\": %llu, \"left_objects\": %llu, \"tickets\": %llu}\n",
         static_cast<Number>(calls.left_bytes), static_cast<Number>(calls.left_objects),
         static_cast<Number>(calls.last()));
}

}  // namespace

int read_trace(int argc, char** argv) {
  const char* what = argc > 2 ? argv[1] : "";
  const bool info = strcmp(what, "info") == 0 && argc == 3;
  const bool listed = strcmp(what, "calls") == 0 && argc == 4;
  const bool plan = strcmp(what, "plan") == 0 && argc == 6;
  if (!info && !listed && !plan) {
    fputs("loft-trace: a part of `loft replay`, not to be started by hand\n", stderr);
    return 2;
  }
  Chunks chunks(argv[2]);
  if (info) {
    print_info(chunks);
    return 0;
  }
  const size_t image = strtoul(argv[3], nullptr, 10);
  if (image >= chunks.images().size()) fail("there is no such process in it");
  Calls calls(chunks, image, plan ? strtoul(argv[4], nullptr, 10) : 0);
  if (listed) {
    print_calls(calls);
    return 0;
  }
  write_plan(calls, argv[5]);
  print_plan(chunks.images()[image], calls);
  return 0;
}

}  // namespace trace
