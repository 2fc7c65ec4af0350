use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn written(path: &Path, content: &[u8], mode: u32) {
    std::fs::write(path, content).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
}

#[test]
fn a_key_file_is_its_users_alone_and_is_never_written_over() {
    let folder = folder();
    let path = folder.path().join("key");
    make(&path).expect("a key");
    assert_eq!((mode(&path), std::fs::read(&path).expect("a file").len()), (0o600, FILE));
    let (one, again) = (Key::read(&path).expect("a key"), Key::read(&path).expect("a key"));
    assert_eq!(one.0.public(), again.0.public());
    let before = std::fs::read(&path).expect("a file");
    let e = make(&path).expect_err("there is one").to_string();
    assert!(e.ends_with("expected no file of this name; a new key would lock out who has the old one"), "{e}");
    assert_eq!(std::fs::read(&path).expect("a file"), before);
    let other = folder.path().join("other");
    make(&other).expect("a key");
    assert_ne!(Key::read(&other).expect("a key").0.public(), one.0.public());
}

#[test]
fn a_file_that_is_no_key_of_this_user_is_refused() {
    let folder = folder();
    let path = folder.path().join("key");
    let refused = |words: &str| {
        let e = Key::read(&path).expect_err("no key").to_string();
        assert!(e.contains(words) && e.starts_with(&path.display().to_string()), "{e}");
    };
    refused("expected a key file, No such file");
    let good = [b'a'; 64];
    for open in [0o640, 0o604, 0o660, 0o620] {
        written(&path, &good, open);
        refused("expected a file that only its user may read");
        std::fs::remove_file(&path).expect("a file");
    }
    for bad in [&good[..63], &[b'a'; 66], b"", &[b'g'; 64], &[0xff; 64], &[b'a'; 200]] {
        written(&path, bad, 0o600);
        refused("expected a key, 64 hexadecimal digits in one line");
    }
    written(&path, &good, 0o400);
    Key::read(&path).expect("a key without the end of its line");
    std::fs::remove_file(&path).expect("a file");
    std::fs::create_dir(&path).expect("a folder");
    refused("no regular file");
    std::fs::remove_dir(&path).expect("a folder");
    // A pipe is not waited for.
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    refused("no regular file");
    std::fs::remove_file(&path).expect("a pipe");
    let real = folder.path().join("real");
    written(&real, &good, 0o644);
    symlink(&real, &path).expect("a link");
    refused("its mode is 644");
}

#[test]
fn identities_are_the_same_in_every_version() {
    // Who changes the derivation locks every older end out. The numbers are from another implementation of it.
    let all = Identities::derive(&[7; 32]).expect("random bytes");
    let shown = |key: &[u8]| key.iter().rev().take(8).rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (host, server) = all.public();
    assert_eq!((host.len(), server.len()), (44, 44));
    assert_eq!((shown(host).as_str(), shown(server).as_str()), ("16b2af41832a90b0", "f1340290db91042d"));
}

#[test]
fn a_server_leaves_its_key_for_its_own_user() {
    let (folder, at) = (folder(), "127.0.0.1:7000".parse().expect("an address"));
    let (key, kept) = LeftKey::leave(at, folder.path()).expect("a key");
    assert_eq!(kept.path(), folder.path().join("hamr/127.0.0.1:7000.key"));
    assert_eq!((mode(kept.path()), mode(&folder.path().join("hamr"))), (0o600, 0o700));
    assert_eq!(Key::read(&left(at, folder.path()).expect("a path")).expect("a key").0.public(), key.0.public());
    // The next server's key replaces it, and outlives it.
    let (next, still) = LeftKey::leave(at, folder.path()).expect("a key");
    assert_ne!(next.0.public(), key.0.public());
    drop(kept);
    assert_eq!(Key::read(still.path()).expect("a key").0.public(), next.0.public());
    let path = still.path().to_owned();
    drop(still);
    assert!(!path.exists());
    assert_eq!(std::fs::read_dir(folder.path().join("hamr")).expect("a folder").count(), 0);
}

#[test]
fn a_key_is_left_on_loopback_only_and_in_a_folder_of_the_user() {
    let folder = folder();
    let e = left("192.0.2.1:7000".parse().expect("an address"), folder.path()).expect_err("not loopback");
    assert_eq!(
        e.to_string(),
        "expected a key for 192.0.2.1:7000, which is not a loopback address; make one with `hamr keys FILE` and give it \
         to both sides (--key FILE)"
    );
    let at = "[::1]:7000".parse().expect("an address");
    assert_eq!(left(at, folder.path()).expect("a path").file_name().expect("a name"), "[::1]:7000.key");
    let other = folder.path().join("hamr");
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o777)).expect("its mode");
    assert!(left(at, folder.path()).expect_err("open to all").to_string().contains("is not this user's alone"));
    std::fs::remove_dir(&other).expect("a folder");
    symlink("/tmp", &other).expect("a link");
    assert!(left(at, folder.path()).expect_err("a link").to_string().contains("is not this user's alone"));
    assert!(left(at, &folder.path().join("none")).expect_err("no folder").to_string().contains("XDG_RUNTIME_DIR"));
}
