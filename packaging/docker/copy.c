/* The one program in the image, which has no shell: copies the libraries to the folder that is
   named, such as a volume that another container shares. loft-copy FOLDER [FROM]; FROM is
   /usr/local/lib. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char* const kFiles[] = {"libloft.so", "libloft-bounds.so", "libloft-inspect.so",
                                     "libloft-musl.so"};

static int fail(const char* what, const char* path) {
  fprintf(stderr, "loft-copy: %s cannot be %s: %s\n", path, what, strerror(errno));
  return 1;
}

/* By another name first: whoever looks meanwhile finds a whole library, or none. */
static int copy(const char* from, const char* folder, const char* name) {
  char source[4096], part[4096], target[4096], buffer[65536];
  snprintf(source, sizeof source, "%s/%s", from, name);
  snprintf(part, sizeof part, "%s/.%s.part", folder, name);
  snprintf(target, sizeof target, "%s/%s", folder, name);
  int in = open(source, O_RDONLY | O_CLOEXEC);
  if (in < 0) return errno == ENOENT ? 0 : fail("read", source);
  int out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
  if (out < 0) return fail("written", part);
  ssize_t bytes;
  while ((bytes = read(in, buffer, sizeof buffer)) > 0) {
    for (ssize_t done = 0; done < bytes;) {
      ssize_t now = write(out, buffer + done, (size_t)(bytes - done));
      if (now < 0) return fail("written", part);
      done += now;
    }
  }
  if (bytes < 0) return fail("read", source);
  close(in);
  if (fchmod(out, 0755) != 0 || close(out) != 0 || rename(part, target) != 0)
    return fail("written", target);
  return 0;
}

int main(int count, char** arguments) {
  const char* folder = count > 1 ? arguments[1] : "/loft";
  const char* from = count > 2 ? arguments[2] : "/usr/local/lib";
  if (mkdir(folder, 0755) != 0 && errno != EEXIST) return fail("made", folder);
  for (unsigned i = 0; i < sizeof kFiles / sizeof *kFiles; i++) {
    if (copy(from, folder, kFiles[i]) != 0) return 1;
  }
  return 0;
}
