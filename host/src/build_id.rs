//! Build ids: each build of an image has another one.

use serde::{Serialize, Serializer};
use std::fmt;

/// The build id that an image's linker wrote, or none. It shows as hexadecimal digits, or as
/// `none`.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct BuildId(Box<[u8]>);

impl BuildId {
    /// Of these bytes; none when all of them are zero.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.iter().all(|byte| *byte == 0) { Self::default() } else { Self(bytes.into()) }
    }

    /// Has the image no build id? Two images without one are not known to be the same.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes: 20 of most linkers.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its digits; empty for none. What machines read: JSON has this text.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() { f.pad("none") } else { f.pad(&self.to_hex()) }
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

impl Serialize for BuildId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::BuildId;

    #[test]
    fn people_read_none_and_machines_an_empty_text() {
        let (none, some) = (BuildId::of(&[0; 20]), BuildId::of(&[0xAB, 0, 1]));
        assert_eq!((none.is_none(), none.to_string(), none.to_hex()), (true, "none".into(), String::new()));
        assert_eq!((some.is_none(), some.to_string(), some.to_hex()), (false, "ab0001".into(), "ab0001".into()));
        assert_eq!(none, BuildId::of(&[]));
        assert_eq!(serde_json::to_string(&[none, some]).expect("text"), r#"["","ab0001"]"#);
    }
}
