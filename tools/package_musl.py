"""libloft for musl, from the single file and Debian's compilers.

Debian has no libstdc++ for musl. loft needs its headers alone; of those that differ by system,
test/elsewhere/musl has musl's.
"""

from pathlib import Path

from package_base import ROOT, run

FLAGS = (
    *("-std=c++20", "-O2", "-DNDEBUG", "-g1", "-fPIC", "-fno-exceptions", "-fno-rtti"),
    *("-fno-threadsafe-statics", "-fasynchronous-unwind-tables", "-fvisibility=hidden"),
    *("-ftls-model=initial-exec", "-ffunction-sections", "-fdata-sections", "-fno-builtin-malloc"),
    *("-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-builtin-free"),
)
LINK = (
    *("-shared", "-nodefaultlibs", "-Wl,-soname,libloft.so.0", "-Wl,--gc-sections", "-Wl,-z,now"),
    *("-Wl,-z,relro", "-Wl,-z,nodelete", "-Wl,-Bsymbolic-functions", "-Wl,-z,noseparate-code"),
)


def said(*command: str) -> str:
    return run(*command).stdout.strip()


def compiler(folder: Path) -> list[str]:
    """g++ with musl's headers and libraries. In the folder lie the kernel's own headers."""
    version, target = said("g++", "-dumpversion"), said("g++", "-dumpmachine")
    kernel = folder / "kernel"
    kernel.mkdir(parents=True, exist_ok=True)
    for name in ("linux", f"{target}/asm", "asm-generic"):
        link = kernel / Path(name).name
        if not link.is_symlink():
            link.symlink_to(Path("/usr/include") / name)
    headers = (
        str(ROOT / "test" / "elsewhere" / "musl"),
        f"/usr/include/c++/{version}",
        f"/usr/include/{target}/c++/{version}",
        "/usr/include/x86_64-linux-musl",
        str(kernel),
        said("g++", "-print-file-name=include"),
    )
    command = ["g++", "-nostdinc", "-nostdinc++", "-nostartfiles", "-L/usr/lib/x86_64-linux-musl"]
    for path in headers:
        command += ["-isystem", path]
    return command


def build(single: Path, include: Path, folder: Path, version_script: Path) -> tuple[Path, Path]:
    """The shared and the static library, of the file loft.cc."""
    cxx = compiler(folder)
    compiled, shared, static = (folder / name for name in ("loft.o", "libloft.so.0", "libloft.a"))
    static.unlink(missing_ok=True)
    # The names of files in what is compiled do not say where it was.
    maps = (f"-ffile-prefix-map={single.parent}=.", f"-ffile-prefix-map={folder}=.")
    run(*cxx, *FLAGS, *maps, f"-I{include}", "-c", single, "-o", compiled, folder=folder)
    script = f"-Wl,--version-script={version_script}"
    run(*cxx, *LINK, script, compiled, "-o", shared, "-lc", "-lgcc", folder=folder)
    run("ar", "rcD", static, compiled)
    for library in (shared, static):
        run("strip", "--strip-debug", "--enable-deterministic-archives", library)
    return shared, static
