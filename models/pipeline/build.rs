//! Lists the cores of `models/` for the program that has them inside, and compiles in a checksum of the
//! sources, by which Python notices a module of another checkout.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate"));
    let sum = checksum(&crate_folder.join("src"))?;
    println!("cargo:rustc-env=LOOPWRIGHT_SOURCES={sum}");
    if env::var_os("CARGO_FEATURE_MCA").is_some() {
        let out = env::var_os("OUT_DIR").expect("cargo names the folder");
        fs::write(Path::new(&out).join("cores.rs"), cores(&crate_folder.join("..")))?;
    }
    Ok(())
}

/// The CRC-32 of all sources, in the order of their paths.
fn checksum(sources: &Path) -> io::Result<u32> {
    let (mut folders, mut files) = (vec![sources.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut sum = crc32fast::Hasher::new();
    for file in files {
        sum.update(&fs::read(file)?);
    }
    Ok(sum.finalize())
}

/// A table in Rust of the cores in a folder; empty where there is none.
fn cores(models: &Path) -> String {
    let mut rows = String::new();
    let mut folders: Vec<_> = fs::read_dir(models)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    folders.sort();
    for folder in folders {
        if folder.join("core.toml").is_file() && folder.join("instructions.csv").is_file() {
            let id = folder
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let file = |name: &str| format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../{id}/{name}\"))");
            rows.push_str(&format!(
                "({id:?}, {}, {}),\n",
                file("core.toml"),
                file("instructions.csv")
            ));
        }
    }
    format!("static CORES: &[(&str, &str, &str)] = &[\n{rows}];\n")
}
