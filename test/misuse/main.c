// misuse_cases NAME: runs one case. misuse_cases --list: all of them, one a line: name, section,
// what it does, size of the objects.
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cases.h"

void print_distance(void);

static const Family* const kFamilies[] = {kBounds, kFrees,   kPairs,   kStale,
                                          kSizes,  kAttacks, kMessages};

static const struct {
  unsigned bit;
  size_t size;
  const char* name;
  const char* says;
} kSizeNames[] = {{kTiny, 48, "48", "48 B"},
                  {kPage, 4096, "4k", "4 KiB"},
                  {kMedium, kMiB / 4, "256k", "256 KiB"},
                  {kLarge, 8 * kMiB, "8m", "8 MiB"}};

// Calls `each` for every case.
static void visit(void (*each)(const Family* family, const char* name, size_t size,
                               const char* size_says)) {
  for (size_t i = 0; i < sizeof(kFamilies) / sizeof(kFamilies[0]); i++) {
    for (const Family* family = kFamilies[i]; family->name != NULL; family++) {
      if (family->sizes == 0) each(family, family->name, 48, "");
      for (size_t k = 0; k < sizeof(kSizeNames) / sizeof(kSizeNames[0]); k++) {
        if ((family->sizes & kSizeNames[k].bit) == 0) continue;
        char name[64];
        snprintf(name, sizeof(name), "%s-%s", family->name, kSizeNames[k].name);
        each(family, name, kSizeNames[k].size, kSizeNames[k].says);
      }
    }
  }
}

static void list_it(const Family* family, const char* name, size_t size, const char* size_says) {
  (void)size;
  printf("%s\t%s\t%s\t%s\n", name, family->section, family->says, size_says);
}

static const char* wanted;

static void run_it(const Family* family, const char* name, size_t size, const char* size_says) {
  (void)size_says;
  if (strcmp(name, wanted) != 0) return;
  const Setting setting = {.size = size, .count = family->count, .act = family->act};
  family->run(&setting);
  finish(kBroken);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // Many of these processes are meant to crash. The system writes no core that is smaller than a
  // page, and gives none to a program that collects them if the limit is 1.
  const struct rlimit none = {1, 1};
  setrlimit(RLIMIT_CORE, &none);
  if (strcmp(argv[1], "--list") == 0) {
    visit(list_it);
    return 0;
  }
  if (strcmp(argv[1], "--distance") == 0) {
    print_distance();
    return 0;
  }
  wanted = argv[1];
  visit(run_it);
  fprintf(stderr, "misuse_cases: no case %s: --list tells which there are\n", wanted);
  return 2;
}
