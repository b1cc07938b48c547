"""A user of the package, whose programs tell whose malloc they have."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class User(ConanFile):
    settings = ("os", "compiler", "build_type", "arch")
    generators = ("CMakeDeps", "CMakeToolchain")

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            for name in ("with_loft", "with_core"):
                self.run(f"{self.cpp.build.bindir}/{name}", env="conanrun")
            os.environ["LOFT_STATS"] = "json"
            self.run(f"{self.cpp.build.bindir}/quiet", env="conanrun")
