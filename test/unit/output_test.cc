// Files that loft writes: what becomes of the file that has the name, and where links lead.
#include "files/output.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "inspect/new_file.h"

namespace loft::files {
namespace {

// In a folder of its own, beside a file whose text must stay.
class OutputTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "loft-output-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/path";
    precious_ = folder_ + "/precious";
    std::ofstream(precious_) << "precious";
  }
  void TearDown() override {
    EXPECT_EQ(text_of(precious_), "precious");
    std::filesystem::remove_all(folder_);
  }

  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      found.insert(each.path().filename());
    }
    return found;
  }

  // Writes "text" and ends as if the writer had met that error.
  int write_whole(int error = 0) const {
    inspect::NewFile output;
    if (const int refused = output.open(path_.c_str()); refused != 0) return refused;
    EXPECT_TRUE(write_at_once(output.file(), "text", 4));
    return output.close(error);
  }

  // Why a report is not appended; "" if it is.
  std::string append() const {
    const char* why = "";
    const int file = open_to_append(path_.c_str(), &why);
    if (file < 0) return why;
    EXPECT_EQ(why, nullptr);
    EXPECT_TRUE(write_at_once(file, "text", 4));
    close_output(file);
    return "";
  }

  std::string folder_;
  std::string path_;
  std::string precious_;
};

TEST_F(OutputTest, HasItsNameOnceItIsWhole) {
  std::ofstream(path_) << "former";
  inspect::NewFile output;
  ASSERT_EQ(output.open(path_.c_str()), 0);
  ASSERT_TRUE(write_at_once(output.file(), "text", 4));
  EXPECT_EQ(text_of(path_), "former");
  EXPECT_EQ(names().size(), 3u);
  EXPECT_EQ(output.close(0), 0);
  EXPECT_EQ(text_of(path_), "text");
  EXPECT_EQ(names(), (std::set<std::string>{"path", "precious"}));
  struct stat made;
  ASSERT_EQ(stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 07777, 0600u);
}

TEST_F(OutputTest, LeavesTheFormerFileWhereWritingFails) {
  std::ofstream(path_) << "former";
  EXPECT_EQ(write_whole(ENOSPC), ENOSPC);
  EXPECT_EQ(text_of(path_), "former");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(OutputTest, TwoAtOnceAreBothWhole) {
  inspect::NewFile one;
  inspect::NewFile other;
  ASSERT_EQ(one.open(path_.c_str()), 0);
  ASSERT_EQ(other.open(path_.c_str()), 0);
  ASSERT_TRUE(write_at_once(one.file(), "one", 3));
  ASSERT_TRUE(write_at_once(other.file(), "the other", 9));
  EXPECT_EQ(one.close(0), 0);
  EXPECT_EQ(text_of(path_), "one");
  EXPECT_EQ(other.close(0), 0);
  EXPECT_EQ(text_of(path_), "the other");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(OutputTest, FollowsNoLink) {
  ASSERT_EQ(symlink("precious", path_.c_str()), 0);
  EXPECT_EQ(write_whole(), ELOOP);
  EXPECT_EQ(append(), "it is a symbolic link");
  EXPECT_EQ(names().size(), 2u);
  // One that comes while the file is written is replaced.
  ASSERT_EQ(unlink(path_.c_str()), 0);
  inspect::NewFile output;
  ASSERT_EQ(output.open(path_.c_str()), 0);
  ASSERT_EQ(symlink("precious", path_.c_str()), 0);
  EXPECT_EQ(output.close(0), 0);
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path_)));
}

TEST_F(OutputTest, WritesNoFileThatHasAnotherName) {
  ASSERT_EQ(link(precious_.c_str(), path_.c_str()), 0);
  EXPECT_EQ(append(), "it has another name, too");
  EXPECT_EQ(write_whole(), 0);  // which takes the name
  EXPECT_EQ(text_of(path_), "text");
}

TEST_F(OutputTest, ReplacesNothingButFiles) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(write_whole(), EEXIST);
  EXPECT_EQ(append(), "it is no regular file");  // nobody reads from it
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(write_whole(), EISDIR);
  EXPECT_EQ(append(), "it is a folder");
  path_ = "/dev/null";
  EXPECT_EQ(write_whole(), EEXIST);
  EXPECT_EQ(append(), "it is no regular file");
  path_ = folder_ + "/none/path";
  EXPECT_EQ(write_whole(), ENOENT);
  EXPECT_EQ(append(), "its folder does not exist");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(OutputTest, AppendsToItsUsersFilesAndRoots) {
  EXPECT_EQ(append(), "");
  EXPECT_EQ(append(), "");
  EXPECT_EQ(text_of(path_), "texttext");
  constexpr uid_t kNobody = 65534;
  if (chown(path_.c_str(), kNobody, kNobody) != 0) return;  // root alone may
  EXPECT_EQ(append(), "it is another user's");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(seteuid(kNobody), 0);
  EXPECT_EQ(append(), "");
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  ASSERT_EQ(seteuid(kNobody), 0);
  EXPECT_EQ(append(), "");
  ASSERT_EQ(seteuid(0), 0);
}

TEST(Files, TemporaryNamesLieInTheSameFolder) {
  char one[64];
  char other[64];
  for (const std::string folder : {"", "/", "a/", "/a/b/"}) {
    ASSERT_TRUE(inspect::name_temporary((folder + "name").c_str(), one, sizeof(one)));
    ASSERT_TRUE(inspect::name_temporary((folder + "name").c_str(), other, sizeof(other)));
    EXPECT_STRNE(one, other);
    EXPECT_EQ(std::string(one).find(folder + ".loft-"), 0u);
    EXPECT_EQ(std::string(one).size(), folder.size() + 22);
  }
  EXPECT_TRUE(inspect::name_temporary("a/name", one, 25));
  EXPECT_FALSE(inspect::name_temporary("a/name", one, 24));
}

}  // namespace
}  // namespace loft::files
