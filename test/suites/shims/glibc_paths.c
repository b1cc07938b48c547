// Where glibc's build tree is, which only its tests in containers ask for.
const char support_objdir_root[] = "/nowhere";
const char support_srcdir_root[] = "/nowhere";
