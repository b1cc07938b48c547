// libstdc++ has this one by system. Debian's asks for glibc's version; where libstdc++ is built for
// musl, it says nothing.
#pragma once
