#!/usr/bin/env python3
"""Makes packages: the source and recipes for it, tarballs, deb, rpm, apk and an image.

All bear the moment of the commit and no name of a folder: of one commit, two runs in two places
give equal bytes. The library is compiled once for each machine and C library.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import abi
import package_apk
import package_image
import package_musl
import package_recipes
from package_base import (
    MACHINES,
    NAME,
    ROOT,
    Entry,
    PackageError,
    compressed,
    entries_of,
    environment,
    epoch,
    fresh,
    loft_version,
    run,
    tar_of,
)

PACKAGING = ROOT / "packaging"
TARGETS = ("loft_shared", "loft_static", "loft_bounds", "loft_single")
# Debian's own tools are scripts of Debian's own interpreters.
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Not one of Debian's own: it sorts before whatever Debian may have of this version.
DEBIAN_REVISION = "0loft1"


@dataclass
class Plan:
    """One run. What is made once and used by several formats is made when the first asks for it."""

    out: Path
    work: Path
    version: str
    moment: int

    @property
    def env(self) -> dict[str, str]:
        return environment(self.moment)

    @property
    def full_name(self) -> str:
        return f"{NAME}-{self.version}"

    @cached_property
    def tarball(self) -> Path:
        path = self.out / f"{self.full_name}.tar.gz"
        entries = [entry for entry in source_entries() if (entry.data or entry.link)]
        entries = [
            entry._replace(name=f"{self.full_name}/{entry.name}")
            for entry in sorted(entries, key=lambda entry: entry.name)
        ]
        path.write_bytes(compressed(tar_of(entries, self.moment)))
        return path

    @cached_property
    def source(self) -> Path:
        """The source tarball, unpacked: whatever is built is built from it."""
        run("tar", "-xzf", self.tarball, "-C", fresh(self.work / "source"))
        return self.work / "source" / self.full_name

    @cached_property
    def objects(self) -> dict[str, Path]:
        """Where CMake has built the preset `package`, by machine."""
        return {}

    def built(self, machine: str, *more: str) -> Path:
        if machine not in self.objects:
            name = "package" if machine == "x86_64" else f"package-{machine}"
            self.objects[machine] = self.source / "build" / name
            self.configure(machine, "-DCMAKE_INSTALL_LIBDIR=lib")
        targets = (*TARGETS, *more)
        run(
            *("cmake", "--build", str(self.objects[machine]), "--target", *targets),
            folder=self.source,
            env=self.env,
        )
        return self.objects[machine]

    def configure(self, machine: str, *options: str) -> None:
        cross = [
            "-DCMAKE_SYSTEM_NAME=Linux",
            f"-DCMAKE_SYSTEM_PROCESSOR={machine}",
            f"-DCMAKE_CXX_COMPILER={MACHINES[machine]}-g++",
        ]
        more = [*options, *(cross if machine != "x86_64" else ())]
        folder = self.objects[machine]
        run(
            *("cmake", "--preset", "package", "-B", str(folder), "--log-level=WARNING", *more),
            folder=self.source,
            env=self.env,
        )

    def stripped(self, machine: str, name: str) -> bytes:
        """A library without its line tables. The names of its functions stay, for profilers."""
        built = (self.built(machine) / name).resolve()
        path = fresh(self.work / "stripped") / name
        shutil.copy(built, path)
        run(f"{MACHINES[machine]}-strip", "--strip-debug", path)
        return path.read_bytes()

    @cached_property
    def musl(self) -> tuple[Path, Path]:
        single = self.built("x86_64") / "loft.cc"
        folder = self.work / "musl"
        folder.mkdir(parents=True, exist_ok=True)
        include, script = self.source / "include", self.source / "cmake" / "loft.map"
        return package_musl.build(single, include, folder, script)


def source_entries() -> list[Entry]:
    """What git has, as it lies in the working tree; in an unpacked tarball, all that lies there."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0 or not (ROOT / ".git").exists():
        found = entries_of(ROOT)
        skipped = ("build/", "debian/", ".git")
        return [entry for entry in found if not entry.name.startswith(skipped)]
    entries = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if path.is_symlink():
            entries.append(Entry(name, link=str(path.readlink())))
        elif path.is_file() and name:
            mode = 0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644
            entries.append(Entry(name, path.read_bytes(), mode))
    return entries


# ---- Formats -----------------------------------------------------------------------------------


def recipe(plan: Plan, template: str) -> Path:
    path = plan.out / Path(template).name
    path.write_text(package_recipes.recipe(PACKAGING / template, plan.tarball, plan.version))
    return path


def source(plan: Plan) -> list[Path]:
    return [plan.tarball]


def meson(plan: Plan) -> list[Path]:
    return [plan.tarball, recipe(plan, "meson/loft.wrap")]


def vcpkg(plan: Plan) -> list[Path]:
    path = plan.out / f"{plan.full_name}-vcpkg.tar.gz"
    path.write_bytes(package_recipes.port(plan.tarball, plan.version, plan.moment))
    return [path]


def tar(plan: Plan) -> list[Path]:
    """Below one folder, which may lie anywhere: /usr/local, a home, an image."""
    made = []
    for machine in MACHINES:
        objects = plan.built(machine)
        plan.configure(machine, "-DCMAKE_INSTALL_LIBDIR=lib")
        root = fresh(plan.work / f"tar-{machine}")
        run("cmake", "--install", objects, env={**plan.env, "DESTDIR": str(root)})
        prefix = root / "usr"
        for name in ("libloft.so.0", "libloft-bounds.so", "libloft-inspect.so"):
            (prefix / "lib" / name).write_bytes(plan.stripped(machine, name))
            (prefix / "lib" / name).chmod(0o755)
        strip = f"{MACHINES[machine]}-strip"
        for name in ("libloft.a", "libloft-inspect.a"):
            static = prefix / "lib" / name
            run(strip, "--strip-debug", "--enable-deterministic-archives", static)
        config = prefix / "lib" / "pkgconfig" / "loft.pc"
        lines = config.read_text().splitlines()
        lines = ["prefix=${pcfiledir}/../.." if "prefix=/" in line else line for line in lines]
        config.write_text("\n".join(lines) + "\n")
        (prefix / "share" / "loft").mkdir(parents=True)
        shutil.copy(objects / "loft.cc", prefix / "share" / "loft")
        for name in ("LICENSE", "CHANGELOG.md", "README.md", "SECURITY.md"):
            shutil.copy(plan.source / name, prefix / "share" / "loft")
        folder = f"{plan.full_name}-linux-{machine}"
        path = plan.out / f"{folder}.tar.gz"
        entries = [Entry(f"{folder}/", mode=0o755), *entries_of(prefix, f"{folder}/")]
        path.write_bytes(compressed(tar_of(entries, plan.moment)))
        made.append(path)
    return made


def deb(plan: Plan) -> list[Path]:
    """The source package and the binary packages, by debhelper."""
    objects = plan.built("x86_64", "loft_command")
    folder = fresh(plan.work / "deb")
    orig = folder / f"{NAME}_{plan.version}.orig.tar.gz"
    shutil.copy(plan.tarball, orig)
    source = folder / plan.full_name
    run("tar", "-xzf", orig, "-C", folder)
    write_debian(plan, source / "debian")
    env = {**plan.env, "PATH": SYSTEM_PATH, "DEB_BUILD_OPTIONS": "nocheck"}
    build = ("dpkg-buildpackage", "-us", "-uc", "-nc", "-d")
    run(*build, "-S", folder=source, env=env)
    # The same tree once more, with what was built in the other.
    shutil.rmtree(plan.source / "debian", ignore_errors=True)
    shutil.copytree(source / "debian", plan.source / "debian")
    run(*build, "-b", folder=plan.source, env={**env, "LOFT_OBJECTS": f"build/{objects.name}"})
    results = [path for path in plan.source.parent.iterdir() if path.is_file()]
    results += [path for path in folder.iterdir() if path.is_file()]
    return [Path(shutil.copy(path, plan.out)) for path in sorted(results)]


def write_debian(plan: Plan, folder: Path) -> None:
    shutil.copytree(PACKAGING / "debian", folder)
    day = datetime.fromtimestamp(plan.moment, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    control = (folder / "control").read_text()
    (folder / "control").write_text(control)
    maintainer = next(
        line.partition(": ")[2] for line in control.splitlines() if line.startswith("Maintainer: ")
    )
    (folder / "changelog").write_text(
        f"{NAME} ({plan.version}-{DEBIAN_REVISION}) unstable; urgency=medium\n\n"
        f"  * Release {plan.version}; CHANGELOG.md says what is new.\n\n"
        f" -- {maintainer}  {day}\n"
    )
    lines = ["libloft.so.0 libloft0 #MINVER#"]
    lines += [f" {name}@Base {since}" for name, since in abi.symbols().items()]
    (folder / "libloft0.symbols").write_text("\n".join(lines) + "\n")


def rpm(plan: Plan) -> list[Path]:
    objects = plan.built("x86_64", "loft_command")
    top = fresh(plan.work / "rpm")
    (top / "SOURCES").mkdir()
    shutil.copy(plan.tarball, top / "SOURCES")
    macros = {
        "_topdir": str(top),
        "_tmppath": str(top),
        "loft_version": plan.version,
        "loft_source": str(plan.source),
        "loft_objects": str(objects),
        "_buildhost": "loft",
        "_lib": "lib64",
        "_libdir": "/usr/lib64",
        "_prefix": "/usr",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
        "source_date_epoch_from_changelog": "0",
        # Debian's rpm has none of a distribution's scripts that go over what was installed.
        "__os_install_post": "%{nil}",
    }
    defines = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    spec = PACKAGING / "rpm" / "loft-malloc.spec"
    run("rpmbuild", "-ba", "--nodeps", *defines, spec, env={**plan.env, "PATH": SYSTEM_PATH})
    results = sorted((*top.glob("RPMS/*/*.rpm"), *top.glob("SRPMS/*.rpm")))
    return [Path(shutil.copy(path, plan.out)) for path in results]


def apk(plan: Plan) -> list[Path]:
    shared, static = plan.musl
    config = "prefix=/usr\nlibdir=${prefix}/lib\nincludedir=${prefix}/include\n\nName: loft\n"
    config += f"Description: a memory allocator\nVersion: {plan.version}\n"
    # As cmake/loft.pc.in: also in a program whose own objects name no function of it.
    config += "Libs: -L${libdir} -Wl,--push-state,--no-as-needed,-lloft,--pop-state -lloft\n"
    config += "Libs.private: -Wl,-u,malloc -lpthread\n"
    folders = [Entry(f"{name}/", mode=0o755) for name in ("usr", "usr/lib")]
    library = [*folders, Entry("usr/lib/libloft.so.0", shared.read_bytes(), 0o755)]
    headers = entries_of(plan.source / "include" / "loft", "usr/include/loft/")
    develop = [
        Entry("usr/", mode=0o755),
        Entry("usr/include/", mode=0o755),
        Entry("usr/include/loft/", mode=0o755),
        *headers,
        Entry("usr/lib/", mode=0o755),
        Entry("usr/lib/libloft.a", static.read_bytes()),
        Entry("usr/lib/libloft.so", link="libloft.so.0"),
        Entry("usr/lib/pkgconfig/", mode=0o755),
        Entry("usr/lib/pkgconfig/loft.pc", config.encode()),
        Entry("usr/share/", mode=0o755),
        Entry("usr/share/loft/", mode=0o755),
        Entry("usr/share/loft/loft.cc", (plan.built("x86_64") / "loft.cc").read_bytes()),
    ]
    so = f"so:libloft.so.0={plan.version}"
    needs = f"depend = libloft={plan.version}-r0"
    packages = {
        "libloft": (library, ["depend = so:libc.musl-x86_64.so.1", f"provides = {so}"]),
        "libloft-dev": (develop, [needs, f"provides = pc:loft={plan.version}"]),
    }
    made = []
    for name, (entries, fields) in packages.items():
        path = plan.out / f"{name}-{plan.version}-r0.apk"
        path.write_bytes(package_apk.package(name, plan.version, entries, plan.moment, fields))
        made.append(path)
    return [*made, recipe(plan, "alpine/APKBUILD")]


def image(plan: Plan) -> list[Path]:
    machines = {}
    for machine in MACHINES:
        copier = fresh(plan.work / f"image-{machine}") / "loft-copy"
        source = PACKAGING / "docker" / "copy.c"
        compiler = f"{MACHINES[machine]}-gcc"
        run(compiler, "-O2", "-static", "-s", "-Wl,--build-id=none", "-o", copier, source)
        folders = ("usr", "usr/local", "usr/local/lib", "usr/local/share", "usr/local/share/doc")
        entries = [
            Entry("loft-copy", copier.read_bytes(), 0o755),
            *(Entry(f"{name}/", mode=0o755) for name in folders),
            Entry("usr/local/share/doc/loft/", mode=0o755),
            Entry("usr/local/share/doc/loft/LICENSE", (ROOT / "LICENSE").read_bytes()),
            Entry("usr/local/lib/libloft.so", plan.stripped(machine, "libloft.so.0"), 0o755),
            Entry(
                "usr/local/lib/libloft-bounds.so",
                plan.stripped(machine, "libloft-bounds.so"),
                0o755,
            ),
            Entry(
                "usr/local/lib/libloft-inspect.so",
                plan.stripped(machine, "libloft-inspect.so"),
                0o755,
            ),
        ]
        if machine == "x86_64":
            data = plan.musl[0].read_bytes()
            entries.append(Entry("usr/local/lib/libloft-musl.so", data, 0o755))
        machines[machine] = sorted(entries, key=lambda entry: entry.name)
    path = plan.out / f"{plan.full_name}-image.tar"
    package_image.write(path, machines, plan.version, plan.moment)
    return [path]


FORMATS: dict[str, Callable[[Plan], list[Path]]] = {
    "source": source,
    "meson": meson,
    "vcpkg": vcpkg,
    "tar": tar,
    "deb": deb,
    "rpm": rpm,
    "apk": apk,
    "image": image,
}


def sums(folder: Path) -> str:
    """SHA256SUMS, as sha256sum writes and reads it."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != "SHA256SUMS"
    )


def make(formats: list[str], out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    plan = Plan(out, out / "work", loft_version(), epoch())
    made = []
    for name in formats:
        made += FORMATS[name](plan)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("formats", nargs="*", help=f"of {', '.join(FORMATS)}; all if none is named")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "packages")
    asked = parser.parse_args()
    for name in asked.formats:
        if name not in FORMATS:
            sys.exit(f"packages: {name} is no format; there are {', '.join(FORMATS)}")
    try:
        for path in dict.fromkeys(make(asked.formats or list(FORMATS), asked.output.resolve())):
            print(path)
    except PackageError as error:
        sys.exit(f"packages: {error}")


if __name__ == "__main__":
    main()
