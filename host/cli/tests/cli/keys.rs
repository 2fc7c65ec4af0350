//! `hamr keys`.

use super::{json, refused};
use crate::common::hamr;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn keys_makes_a_file_of_its_user_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lab.key");
    let name = path.to_str().expect("a name");
    let run = hamr(&["keys", name]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    assert_eq!(run.stdout, format!("{name}: a new key; give a copy to both ends, and to nobody else\n"));
    let key = std::fs::read_to_string(&path).expect("a file");
    assert!(key.len() == 65 && key.trim_end().chars().all(|c| c.is_ascii_hexdigit()), "not a key");
    assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    refused(&hamr(&["keys", name]), &[name, "expected no file of this name"]);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), key);
    let other = folder.path().join("other.key");
    assert_eq!(
        json(&hamr(&["--json", "keys", other.to_str().expect("a name")]))["key"],
        *other.to_str().expect("a name")
    );
    assert_ne!(std::fs::read_to_string(&other).expect("a file"), key);
    refused(&hamr(&["keys", "/no/folder/key"]), &["/no/folder/key: expected a key file, No such file or directory"]);
    refused(&hamr(&["keys"]), &["FILE", "hamr --help"]);
}
