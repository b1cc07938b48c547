// As much of the one that libstdc++ has for musl as <iterator> makes other headers look at.
#pragma once
#define _GLIBCXX_NUM_CATEGORIES 0
namespace std {
using __c_locale = int*;
}
