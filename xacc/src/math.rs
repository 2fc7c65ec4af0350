//! Functions that `core` has not, computed alike on every target.

/// The square root, correctly rounded.
pub fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}

/// `x` to the power of `y`.
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
