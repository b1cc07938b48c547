"""loft for Conan 2: `conan create packaging/conan`, from a checkout or the source's tarball."""

import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

BUILT_FROM = ("CMakeLists.txt", "bounds/*", "cmake/*", "include/*", "inspect/*", "src/*")
SAYS = ("LICENSE", "SECURITY.md")


class Loft(ConanFile):
    name = "loft-malloc"
    description = "A memory allocator that sends freed objects home by message"
    license = "MIT"
    package_type = "library"
    settings = ("os", "compiler", "build_type", "arch")
    options = {"shared": [True, False]}  # noqa: RUF012
    default_options = {"shared": True}  # noqa: RUF012

    def _root(self):
        return Path(self.recipe_folder).parent.parent

    def set_version(self):
        header = (self._root() / "include" / "loft" / "loft.h").read_text(encoding="utf-8")
        self.version = re.findall(r'LOFT_VERSION_STRING "(.*?)"', header)[0]

    def export_sources(self):
        for pattern in BUILT_FROM + SAYS:
            copy(self, pattern, self._root(), self.export_sources_folder)

    def configure(self):
        # The interface is C's: one package for programs of every standard and C++ library.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("the recipe is for Linux on x86_64 and armv8")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCH", "PAPERS", "COMMAND"):
            toolchain.cache_variables[f"LOFT_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in SAYS:
            copy(self, name, self.source_folder, Path(self.package_folder) / "licenses")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "loft")
        for name, library in (("loft", "loft"), ("core", "loft-core")):
            component = self.cpp_info.components[name]
            component.libs = [library]
            component.system_libs = ["pthread", "dl"]
            component.set_property("cmake_target_name", f"loft::{name}")
            component.set_property("pkg_config_name", library)
        # Also in a program whose own objects name no function of it.
        forced = "-u,malloc"
        if self.options.shared:
            shared = Path(self.package_folder) / "lib" / "libloft.so"
            forced = f"--push-state,--no-as-needed,{shared},--pop-state"
        loft = self.cpp_info.components["loft"]
        loft.exelinkflags = loft.sharedlinkflags = [f"-Wl,{forced}"]
        if not self.options.shared:
            # Stacks for a program that has loft in itself; libloft.so opens what lies beside it.
            inspect = self.cpp_info.components["inspect"]
            inspect.libs = ["loft-inspect"]
            inspect.exelinkflags = inspect.sharedlinkflags = ["-Wl,-u,loft_inspect"]
            inspect.set_property("cmake_target_name", "loft::inspect")
            inspect.set_property("pkg_config_name", "loft-inspect")
