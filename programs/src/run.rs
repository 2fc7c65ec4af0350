//! What programs in both views return.
use hamr_xacc::prelude::*;

/// What a number of iterations came to.
#[derive(Clone, Copy, Default, PartialEq, Debug, Migratable)]
pub struct Run {
    /// The sum of the squares by which the last iteration has changed the field.
    pub gosa: f64,
    /// How long they took.
    pub seconds: f64,
}
