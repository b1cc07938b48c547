//! Compiles loft, which is one file of C++ and needs nothing of the C++ library at run time.
//!
//! A package has the file, in `src-c`. A checkout makes it from the sources, by Python.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] = &[
    "-std=c++20",
    "-fno-exceptions",
    "-fno-rtti",
    // What panics may travel through its frames.
    "-fasynchronous-unwind-tables",
    // Guards of statics live in the C++ library.
    "-fno-threadsafe-statics",
    // The compiler must not turn loft's calloc into a call of calloc.
    "-fno-builtin-malloc",
    "-fno-builtin-calloc",
    "-fno-builtin-realloc",
    "-fno-builtin-free",
    "-fno-builtin-aligned_alloc",
    "-fno-builtin-memalign",
    "-fno-builtin-posix_memalign",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
];

fn main() {
    let overrides = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();
    let sources = sources();
    let file = sources.join(if overrides { "loft.cc" } else { "loft_core.cc" });

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .cpp_link_stdlib(None)
        .pic(true)
        .opt_level(2)
        .debug(false)
        .define("NDEBUG", None)
        .warnings(false)
        .include(&sources);
    for flag in FLAGS {
        build.flag(flag);
    }
    let inspects = env::var_os("CARGO_FEATURE_INSPECT").is_some();
    if inspects {
        build.define("LOFT_INSPECT", None);
    }
    // Line tables, for profilers and backtraces, where the program has any.
    if env::var("DEBUG").is_ok_and(|debug| debug != "false") {
        build.flag("-g1");
    }
    if overrides {
        // Nothing in Rust names malloc before the C library is searched for it.
        build.link_lib_modifier("+whole-archive");
        build.flag("-ftls-model=initial-exec");
    } else if env::var_os("CARGO_FEATURE_INITIAL_EXEC").is_some() {
        build.define("LOFT_TLS_INITIAL_EXEC", None);
    }
    let headers = headers_for_musl(&sources);
    if !headers.is_empty() {
        build.compiler("g++");
    }
    for flag in headers {
        build.flag(flag);
    }
    if inspects {
        let object = inspect(&build, &sources.join("loft_inspect.cc"));
        build.object(object);
    }
    build.file(&file).compile("loft");

    // For build scripts of crates that compile C against the header: DEP_LOFT_INCLUDE.
    println!("cargo:include={}", sources.display());
    println!("cargo:rerun-if-changed=build.rs");
}

/// What watches, as one object that has libgcc's unwinder in itself and shows one name, as loft's
/// CMakeLists.txt makes it: no code that is made at run time is known to that copy.
fn inspect(with: &cc::Build, source: &Path) -> PathBuf {
    let parts = with.clone().file(source).compile_intermediates();
    let compiler = with.get_compiler();
    let place = |argument: &str| {
        let output = compiler.to_command().arg(argument).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let object = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("loft_inspect.o");
    let mut link = compiler.to_command();
    link.args(["-r", "-nostdlib", "-fno-lto", "-o"])
        .arg(&object);
    link.arg("-Wl,--wrap=_dl_find_object,--wrap=dl_iterate_phdr,--wrap=_Unwind_Find_FDE");
    link.args(&parts).arg(place("-print-file-name=libgcc_eh.a"));
    run(&mut link);
    run(Command::new(place("-print-prog-name=objcopy"))
        .arg("--keep-global-symbol=loft_inspect")
        .arg(&object));
    object
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?} ended with {status}"),
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// The folder that has loft.cc, loft_core.cc, loft_inspect.cc and loft/loft.h.
fn sources() -> PathBuf {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let packaged = crate_folder.join("src-c");
    let root = crate_folder.join("../../..");
    let script = root.join("tools/rust_bindings.py");
    if !script.is_file() {
        println!("cargo:rerun-if-changed={}", packaged.display());
        return packaged;
    }
    for part in [
        "src",
        "inspect",
        "include",
        "tools/amalgamate.py",
        "test/elsewhere/musl",
    ] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    let made = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("src-c");
    let status = Command::new("python3")
        .arg(&script)
        .arg("--sources")
        .arg(&made)
        .status();
    match status {
        Ok(status) if status.success() => made,
        Ok(status) => panic!("{} ended with {status}", script.display()),
        Err(error) => panic!("python3, which makes loft's single file: {error}"),
    }
}

/// Debian and its kin have no C++ compiler for musl. loft needs only headers of the C++ library, so
/// that the system's g++ will do, with musl's headers in the place of glibc's.
fn headers_for_musl(sources: &Path) -> Vec<String> {
    let env = env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default();
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let target = env::var("TARGET").unwrap_or_default();
    let host = env::var("HOST").unwrap_or_default();
    let chosen = ["CXX", "TARGET_CXX"]
        .map(String::from)
        .into_iter()
        .chain([
            format!("CXX_{target}"),
            format!("CXX_{}", target.replace('-', "_")),
        ])
        .any(|name| env::var_os(name).is_some());
    let musl = PathBuf::from(format!("/usr/include/{machine}-linux-musl"));
    let same_machine = host.split('-').next() == target.split('-').next();
    if env != "musl" || host.contains("musl") || chosen || !same_machine || !musl.is_dir() {
        return Vec::new();
    }
    let said = |argument: &str| {
        let output = Command::new("g++").arg(argument).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.trim().to_owned())
    };
    let (Some(version), Some(gnu), Some(own)) = (
        said("-dumpversion"),
        said("-dumpmachine"),
        said("-print-file-name=include"),
    ) else {
        return Vec::new();
    };
    // The kernel's own headers go with any C library; the rest of /usr/include is glibc's.
    let kernel = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("kernel");
    std::fs::create_dir_all(&kernel).unwrap();
    for (name, place) in [
        ("linux", "linux".to_owned()),
        ("asm", format!("{gnu}/asm")),
        ("asm-generic", "asm-generic".to_owned()),
    ] {
        let link = kernel.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(Path::new("/usr/include").join(place), link).unwrap();
    }
    let mut flags = vec!["-nostdinc".to_owned(), "-nostdinc++".to_owned()];
    for path in [
        sources.join("musl"),
        PathBuf::from(format!("/usr/include/c++/{version}")),
        PathBuf::from(format!("/usr/include/{gnu}/c++/{version}")),
        musl,
        kernel,
        PathBuf::from(own),
    ] {
        flags.push("-isystem".to_owned());
        flags.push(path.display().to_string());
    }
    flags
}
