//! Lists the cores of `models/` for the program that has them inside.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_MCA").is_none() {
        return;
    }
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate");
    let models = Path::new(&crate_folder).join("..");
    let mut rows = String::new();
    let mut folders: Vec<_> = std::fs::read_dir(&models)
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
    let out = std::env::var("OUT_DIR").expect("cargo names the folder");
    let text = format!("static CORES: &[(&str, &str, &str)] = &[\n{rows}];\n");
    std::fs::write(Path::new(&out).join("cores.rs"), text).expect("the folder takes files");
}
