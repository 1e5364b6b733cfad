//! The modules of the source: their order of imports, and no import cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Rooms and single files, each of which imports only what stands before it, and itself.
const ORDER: [&str; 18] = [
    "error",
    "isa",
    "parallel",
    "loops",
    "core",
    "block",
    "engine",
    "observe",
    "predict",
    "block_offsets",
    "batch",
    "calls",
    "loop_offsets",
    "mca",
    "python",
    "wasm",
    "bin",
    "lib",
];

fn sources() -> BTreeMap<String, String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    visit(&root, &root, &mut found);
    assert!(found.len() > 50, "the source is in src");
    found
}

fn visit(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(root, &path, found);
        } else {
            let inside = path.strip_prefix(root).expect("below the source").with_extension("");
            let name = inside.to_string_lossy().replace('/', "::");
            let name = name.strip_suffix("::mod").unwrap_or(&name).to_string();
            found.insert(name, std::fs::read_to_string(&path).expect("text"));
        }
    }
}

/// The files that a file imports or names by a path from the crate's root.
fn imports(text: &str, files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
    let code: String = code.collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        let end = part.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let path = &part[..end.unwrap_or(part.len())];
        let group = part[path.len()..].strip_prefix('{').and_then(|g| g.split('}').next());
        for name in group.unwrap_or("").split(',') {
            let whole = format!("{path}{}", name.trim());
            let whole = whole.trim_end_matches(':');
            let ends = whole.match_indices("::").map(|(at, _)| at).chain([whole.len()]);
            let file = ends.map(|at| &whole[..at]).filter(|p| files.contains_key(*p)).last();
            found.insert(
                file.unwrap_or_else(|| panic!("crate::{whole} is in no file"))
                    .to_string(),
            );
        }
    }
    found
}

fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let files = sources();
    let of = |(name, text): (&String, &String)| {
        let mut to = imports(text, &files);
        to.remove(name);
        (name.clone(), to)
    };
    files.iter().map(of).collect()
}

#[test]
fn rooms_import_only_those_before_them() {
    let place = |file: &str| {
        let room = file.split("::").next().unwrap_or(file);
        let at = ORDER.iter().position(|r| *r == room);
        at.unwrap_or_else(|| panic!("{file} is in no room"))
    };
    for (from, to) in edges() {
        for to in to {
            assert!(place(&to) <= place(&from), "{from} imports {to}");
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut left = edges();
    assert!(left.values().any(|to| !to.is_empty()), "no file imports any");
    loop {
        let free: Vec<String> = left
            .iter()
            .filter(|(_, to)| to.iter().all(|t| !left.contains_key(t)))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|name| {
            left.remove(name);
        });
    }
    assert!(left.is_empty(), "in or behind a circle: {left:?}");
}

#[test]
fn the_machine_is_written_in_one_file() {
    let written = |text: &str| text.lines().any(|l| l.starts_with("impl") && l.contains("Machine"));
    let files = sources().into_iter().filter(|(_, text)| written(text));
    let names: Vec<String> = files.map(|(name, _)| name).collect();
    assert_eq!(names, ["engine::machine"]);
}
