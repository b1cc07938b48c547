// reports HOW [FILTER]: makes a mistake, and has what is reported of it written to standard output
// by a handler, unless HOW says otherwise. With a filter of system calls, under that.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"

typedef void (*Handler)(const char* text, size_t bytes, void* closure);
typedef void (*SetHandler)(Handler handler, void* closure);

static char closure[] = "closure";
static char* object;

static void put(const char* text, size_t bytes) {
  if (write(1, text, bytes) < 0) _exit(3);
}

static void handle(const char* text, size_t bytes, void* with) {
  if (with != closure || text[bytes] != 0 || strlen(text) != bytes) _exit(4);
  put("handled: ", 9);
  put(text, bytes);
}

static void handle_badly(const char* text, size_t bytes, void* with) {
  (void)with;
  put("handled: ", 9);
  put(text, bytes);
  free(object + 32);
}

__attribute__((noinline)) static void mistake(char* p) {
  free(p);
  __asm__ volatile("");
}

int main(int argc, char** argv) {
  const char* const how = argv[1];
  // The program is not linked with loft, which is preloaded.
  SetHandler set = NULL;
  *(void**)&set = dlsym(RTLD_DEFAULT, "loft_set_report_handler");
  if (set == NULL) return 5;
  object = malloc(100);
  if (strcmp(how, "nobody") != 0) set(strcmp(how, "badly") == 0 ? handle_badly : handle, closure);
  if (strcmp(how, "unset") == 0) set(NULL, NULL);
  if (argc > 2) confine(argv[2]);
  if (strcmp(how, "child") == 0) {
    int status = 0;
    if (fork() == 0) mistake(object + 16);
    wait(&status);
  }
  if (strcmp(how, "foreign") == 0) mistake(closure);
  mistake(strcmp(how, "foreign") == 0 ? closure : object + 16);
  put("survived\n", 9);
  return 0;
}
