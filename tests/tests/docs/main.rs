//! The pages' Rust: each paragraph of each block stands in a file of this folder, where it is compiled and run, or where [`ELSEWHERE`] says.
//! Comments and layout may differ, and names of images.
#![allow(unreachable_pub, reason = "a page's handlers are for a crate of their own")]

mod host_calls;
mod offload;
mod tasks;
mod worlds;

use std::path::{Path, PathBuf};

type Done = Result<(), Box<dyn std::error::Error>>;

/// What pages call images, and what there is.
const NAMES: [(&str, &str); 1] = [("my-image", "hamr-checks")];

/// Blocks that need a program, an image or a crate of their own, by a part of their text: where the same is done.
const ELSEWHERE: [(&str, &str, &str); 8] = [
    ("gas.md", "rank.attach(&TABLE)", "host/cli/examples/gas_ring.rs"),
    ("modules.md", "hamr_comm::module!", "tests/module/src/lib.rs"),
    ("modules.md", "dev.load_image", "tests/src/images.rs"),
    ("offload.md", "hamr::main", "tests/src/bin/starts.rs"),
    ("verbs.md", "Fabric::open", "verbs/src/host/mod.rs"),
    ("verbs.md", "Verbs::of", "verbs/src/views.rs"),
    ("worlds.md", "name = \"main\"", "tests/kernels/src/worlds.rs"),
    ("worlds.md", "hamr::world::main", "tests/src/bin/joins.rs"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("in the checkout")
}

/// The device of this program, with the handlers of this folder.
fn loopback() -> hamr::Node {
    let image = hamr::Image::find("none").expect("a name");
    hamr::Runtime::new().expect("a runtime").open("loopback", image).expect("a device")
}

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|file| file.to_string_lossy().ends_with(end)).collect()
}

/// Without comments, imports, attributes of crates, layout and commas at ends.
fn bare(code: &str) -> String {
    let mut bare = String::new();
    for line in code.lines().map(str::trim_start) {
        let line = line.split("//").next().unwrap_or_default();
        if !line.starts_with("use ") && !line.starts_with("#![") {
            bare.extend(line.chars().filter(|c| !c.is_whitespace()));
        }
    }
    [",)", ",}", ",]"].iter().fold(bare, |bare, end| bare.replace(end, &end[1..]))
}

#[test]
fn every_block_is_compiled() {
    let here: String = files("tests/tests/docs", ".rs").iter().map(|file| read(file)).collect();
    let here = bare(&here);
    let mut pages = files("docs", ".md");
    pages.push(root().join("README.md"));
    let (mut missing, mut used, mut count) = (Vec::new(), 0, 0);
    for page in pages {
        let text = read(&page);
        for block in text.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()) {
            let is_its = |(name, part, _): &&(&str, &str, &str)| page.ends_with(name) && block.contains(part);
            if let Some((_, _, file)) = ELSEWHERE.iter().find(is_its) {
                assert!(root().join(file).exists(), "{file}");
                used += 1;
                continue;
            }
            let block = NAMES.iter().fold(block.to_owned(), |block, (page, here)| block.replace(page, here));
            for part in block.split("\n\n") {
                count += 1;
                if !here.contains(&bare(part)) {
                    missing.push(format!("{}:\n{part}", page.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in tests/tests/docs: {}", missing.join("\n\n"));
    assert!(used == ELSEWHERE.len() && count > 15, "{used} elsewhere, {count} here");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable")
}
