//! Arrays of `f32` in NumPy's `.npy` format, version 1: what other programs read and plot.

use crate::Failure;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// Bytes before the elements are a multiple of this.
const ALIGN: usize = 64;

/// Writes an array with these extents, row-major.
///
/// # Errors
/// The file cannot be written.
pub fn save(path: &Path, extents: &[i64], elements: &[f32]) -> Result<(), Failure> {
    let extents: String = extents.iter().map(|n| format!("{n}, ")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents.trim_end());
    let room = (MAGIC.len() + 2 + header.len() + 1).next_multiple_of(ALIGN) - MAGIC.len() - 2;
    header = format!("{header:<width$}\n", width = room - 1);
    let len = u16::try_from(header.len())?.to_le_bytes();
    let elements = elements.iter().flat_map(|x| x.to_le_bytes());
    let bytes: Vec<u8> = [MAGIC, &len, header.as_bytes()].concat().into_iter().chain(elements).collect();
    hamr::io::write(path, &bytes).map_err(|e| format!("{}: {e}", path.display()).into())
}

/// Reads an array that has these extents.
///
/// # Errors
/// The file cannot be read, or has another type, order, shape or length.
pub fn load(path: &Path, extents: &[i64]) -> Result<Vec<f32>, Failure> {
    let name = path.display();
    let bytes = hamr::io::read(path).map_err(|e| format!("{name}: {e}"))?;
    let (header, elements) = split(&bytes).ok_or(format!("{name} is no .npy file of version 1"))?;
    let value = |key: &str| {
        let behind = header.split_once(&format!("'{key}':")).map_or("", |(_, behind)| behind).trim_start();
        let end = if behind.starts_with('(') { behind.find(')').map(|at| at + 1) } else { behind.find([',', '}']) };
        behind[..end.unwrap_or(0)].replace([' ', '\''], "").replace(",)", ")")
    };
    let extents_text = extents.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    for (key, expected) in [("descr", "<f4"), ("fortran_order", "False"), ("shape", &format!("({extents_text})"))] {
        let got = value(key);
        if got != expected {
            return Err(format!("{name}: expected {key} {expected}, got {got}").into());
        }
    }
    let len = extents.iter().product::<i64>() as usize * 4;
    if elements.len() != len {
        return Err(format!("{name}: expected {len} bytes of elements, got {}", elements.len()).into());
    }
    Ok(elements.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect())
}

/// The header, and the bytes behind it.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let (header, elements) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    Some((std::str::from_utf8(header).ok()?, elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("hamr-programs-{}.npy", std::process::id()));
        let elements: Vec<f32> = (0..24).map(|i| i as f32 * 0.5).collect();
        save(&path, &[2, 3, 4], &elements).expect("written");
        assert_eq!(load(&path, &[2, 3, 4]).expect("read"), elements);
        let bytes = fs::read(&path).expect("a file");
        assert_eq!(bytes.len() % 64, 24 * 4 % 64, "elements begin at a multiple of 64");
        let other = load(&path, &[2, 3, 5]).expect_err("another shape").to_string();
        assert!(other.ends_with("expected shape (2,3,5), got (2,3,4)"), "{other}");
        for (bytes, why) in [
            (&bytes[..bytes.len() - 1], "expected 96 bytes of elements, got 95"),
            (&bytes[..40], "is no .npy file of version 1"),
            (&b"\x93NUMPY\x01\x00\x02\x00{}"[..], "expected descr <f4, got "),
            (&[][..], "is no .npy file of version 1"),
        ] {
            fs::write(&path, bytes).expect("written");
            let got = load(&path, &[2, 3, 4]).expect_err(why).to_string();
            assert!(got.contains(why), "{got}");
        }
        fs::remove_file(&path).expect("it is there");
    }
}
