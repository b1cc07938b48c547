// A real program that transforms a large XML document, node by node: xalan, with a stylesheet that
// sorts, groups and numbers.
//
// Source: xalancbmk, on which the NextGen-Malloc paper (HotOS 2023, section 2, table 1) shows what
// an allocator does to the misses of caches and TLB of the program around it. That benchmark is
// SPEC's; this runs Debian's xalan on a document of the same kind, made here, the same on every
// machine. The result of every run is read and its lines counted. The document lies beside this
// program and is made once. An operation is one record; the peak memory is xalan's.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

extern char** environ;

namespace {

constexpr char kStylesheet[] = R"xsl(<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text"/>
<xsl:template match="/records">
  <xsl:apply-templates select="record"><xsl:sort select="city"/><xsl:sort select="name"/></xsl:apply-templates>
</xsl:template>
<xsl:template match="record">
  <xsl:variable name="label" select="concat(translate(name, 'abcdef', 'ABCDEF'), '/', city)"/>
  <xsl:value-of select="concat(position(), ' ', $label, ' ', count(item), ' ', sum(item/@price))"/>
  <xsl:for-each select="item"><xsl:sort select="@price" data-type="number"/>
    <xsl:text> </xsl:text><xsl:value-of select="normalize-space(substring-before(., ','))"/>
  </xsl:for-each>
  <xsl:text>&#10;</xsl:text>
</xsl:template>
</xsl:stylesheet>
)xsl";

std::string folder_of_this_program() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) bench::fail("cannot find this program's own path");
  path[length] = '\0';
  std::string directory(path);
  return directory.substr(0, directory.rfind('/') + 1);
}

void append_word(std::string& text, bench::Random& random) {
  uint32_t length = random.between(3, 11);
  for (uint32_t i = 0; i < length; i++) text += static_cast<char>('a' + random.below(26));
}

std::string document(uint64_t records) {
  std::string text = "<?xml version=\"1.0\"?>\n<records>\n";
  bench::Random random(1);
  for (uint64_t r = 0; r < records; r++) {
    text += "<record id=\"" + std::to_string(r) + "\"><name>";
    append_word(text, random);
    text += "</name><city>";
    append_word(text, random);
    text += "</city>";
    uint32_t items = random.between(1, 8);
    for (uint32_t i = 0; i < items; i++) {
      text += "<item price=\"" + std::to_string(random.below(100'000)) + "\">";
      append_word(text, random);
      text += ", ";
      append_word(text, random);
      text += "</item>";
    }
    text += "</record>\n";
  }
  return text + "</records>\n";
}

// Under its final name only when complete.
void keep(const std::string& path, const std::string& text) {
  if (access(path.c_str(), R_OK) == 0) return;
  std::string partial = path + "." + std::to_string(getpid());
  FILE* file = std::fopen(partial.c_str(), "w");
  if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
      std::fclose(file) != 0 || std::rename(partial.c_str(), path.c_str()) != 0) {
    bench::fail("cannot write %s", path.c_str());
  }
}

uint64_t lines_in(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) bench::fail("xalan left no %s", path.c_str());
  uint64_t lines = 0;
  for (int c; (c = std::fgetc(file)) != EOF;) lines += c == '\n';
  std::fclose(file);
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  uint64_t records = arguments.number("records", 20'000, 1, 100'000'000);
  std::string program = arguments.word("program", "xalan");
  arguments.finish();

  std::string base = folder_of_this_program() + "xalan-" + std::to_string(records);
  std::string input = base + ".xml";
  std::string style = base + ".xsl";
  std::string output = base + "." + std::to_string(getpid()) + ".out";
  if (access(input.c_str(), R_OK) != 0) keep(input, document(records));
  keep(style, kStylesheet);

  bench::Team team;
  rusage usage{};
  double seconds = team.run_here([&] {
    std::string words[] = {program, "-in", input, "-xsl", style, "-out", output};
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    pid_t pid;
    if (posix_spawnp(&pid, program.c_str(), nullptr, nullptr, list.data(), environ) != 0) {
      bench::fail("%s did not start; is it installed?", program.c_str());
    }
    int status;
    if (wait4(pid, &status, 0, &usage) != pid || status != 0) {
      bench::fail("%s ended with status %#x", program.c_str(), status);
    }
  });
  uint64_t lines = lines_in(output);
  unlink(output.c_str());
  if (lines != records) bench::fail("%" PRIu64 " lines of %" PRIu64, lines, records);
  auto in_seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  bench::Result("xalan", seconds, records, team,
                in_seconds(usage.ru_utime) + in_seconds(usage.ru_stime),
                static_cast<uint64_t>(usage.ru_maxrss))
      .word("mode", "waiting")
      .print();
}
