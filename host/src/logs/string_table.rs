//! The texts of an image's log statements, out of its file: ids, formats, and where each statement
//! stands in the source.

use super::locations::{Location, locations};
use crate::{Error, ImageFile};
use hamr_comm::abi::rings::LogLevel;
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::HashMap;

/// The section that contains nothing but symbols.
const SECTION: &str = ".defmt";
/// Encoding and version of what travels, which the image's symbols name. Others would be decoded to
/// garbage.
const ENCODING: &str = "_defmt_encoding_ = rzcobs";
const VERSION: &str = "_defmt_version_ = 4";

/// One text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of a statement; `None` for formats of types and for interned strings.
    pub(super) level: Option<LogLevel>,
    /// Is it a statement, which begins a frame?
    pub(super) is_statement: bool,
    pub(super) format: String,
    pub(super) crate_name: String,
    pub(super) location: Option<Location>,
}

/// All texts of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringTable {
    entries: HashMap<u16, Entry>,
    /// The format that every frame's time has.
    pub(super) time: Option<String>,
}

/// What defmt's macros make of a statement: JSON, as the name of its symbol.
#[derive(serde::Deserialize)]
struct Symbol {
    tag: String,
    data: String,
    #[serde(default)]
    crate_name: String,
}

impl StringTable {
    /// The texts of an image file.
    ///
    /// # Errors
    /// When the file cannot be read, or has no log statements this program can decode.
    pub fn of(image: &ImageFile) -> Result<Self, Error> {
        let bad = |why: String| Error::BadImage { path: image.path.clone(), why };
        let bytes = image.bytes().map_err(|e| bad(format!("expected an ELF file, cannot read it: {e}")))?;
        let elf = object::File::parse(&*bytes).map_err(|e| bad(format!("expected an ELF file: {e}")))?;
        Self::parse(&elf).map_err(bad)
    }

    fn parse(elf: &object::File<'_>) -> Result<Self, String> {
        let none = "expected an image that logs, got one without log texts: \
                    build it with `hamr image`, and do not strip its symbols (`strip --strip-debug` leaves them)";
        let section = elf.section_by_name(SECTION).ok_or(none)?.index();
        let mut string_table = Self::default();
        let (mut is_version_known, mut is_encoding_known) = (false, false);
        let mut statements = HashMap::new();
        for symbol in elf.symbols().filter(|s| s.section_index() == Some(section)) {
            let Ok(name) = symbol.name() else { continue };
            is_version_known |= name == VERSION;
            is_encoding_known |= name == ENCODING;
            let Ok(Symbol { tag, data, crate_name }) = serde_json::from_str(name) else { continue };
            let tag = tag.strip_prefix("defmt_").unwrap_or_default();
            if tag == "timestamp" {
                string_table.time = Some(data);
                continue;
            }
            let level = LogLevel::ALL.into_iter().find(|level| level.name() == tag);
            let is_statement = level.is_some() || tag == "println";
            // The section begins one behind a multiple of 2^16, at any such address.
            let id = symbol.address() as u16;
            if is_statement {
                statements.insert(name.to_owned(), id);
            }
            string_table.entries.insert(id, Entry { level, is_statement, format: data, crate_name, location: None });
        }
        if string_table.entries.is_empty() {
            return Err(none.into());
        }
        if !is_version_known || !is_encoding_known {
            return Err(format!(
                "expected log texts of defmt's wire format with symbols `{VERSION}` and `{ENCODING}`, got others: \
                 build image and host from one version of hamr"
            ));
        }
        // Lines without locations are better than no lines.
        for (id, location) in locations(elf, &statements).unwrap_or_default() {
            if let Some(entry) = string_table.entries.get_mut(&id) {
                entry.location = Some(location);
            }
        }
        Ok(string_table)
    }

    pub(super) fn get(&self, id: u16) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// For tests: statements and formats by id.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn with(time: &str, entries: &[(u16, Option<LogLevel>, &str)]) -> Self {
        let entry = |&(id, level, format): &(u16, Option<LogLevel>, &str)| {
            let is_statement = level.is_some();
            (id, Entry { level, is_statement, format: format.into(), crate_name: "test".into(), location: None })
        };
        Self { entries: entries.iter().map(entry).collect(), time: Some(time.into()) }
    }
}
